# SPDX-License-Identifier: Apache-2.0
"""What stands in for the real world when there is none: models that are reached only over HTTP.

============  ==============================================================================================
``ec2``       EC2 and the few other AWS services that a node autoscaler calls, on one loopback address
``kubelets``  the kubelets of EC2's machines, at any API server
============  ==============================================================================================

Nothing of the product imports this package; the product meets it as it meets AWS, through an address.
"""

__all__ = ["ec2", "kubelets"]
