# SPDX-License-Identifier: Apache-2.0
"""SQS: standard queues with visibility time-outs and long polls on the model's clock.

===========  ===============================================================================================
``store``    queues and messages
``actions``  the operations
===========  ===============================================================================================
"""

from karpenter.sandbox.ec2.services.sqs.actions import handlers

__all__ = ["handlers"]
