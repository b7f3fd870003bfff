# SPDX-License-Identifier: Apache-2.0
"""Misbehaviour as data: what AWS does to its callers besides answering, all of it settable while the model runs.

===============  ===========================================================================================
``throttling``   token buckets a call must draw from, as EC2 publishes them
``faults``       errors, latency and lost replies, by service and operation
``access``       wrong credentials, wrong region, missing permissions
``calls``        the log of all calls
``actions``      everything that a scenario or an admin call may ask for, as typed data
``scenario``     a YAML file of actions and the model times at which they happen
===============  ===========================================================================================
"""

__all__ = ["access", "actions", "calls", "faults", "scenario", "throttling"]
