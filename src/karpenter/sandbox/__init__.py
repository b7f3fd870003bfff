# SPDX-License-Identifier: Apache-2.0
"""What stands in for the real world when there is none: programs that are reached only over HTTP.

=============  ==============================================================================================
``kube``       a Kubernetes API in memory, for the real kubectl and for our own client
``workloads``  the controllers of Kubernetes: Deployments, Jobs, namespaces, node lifecycle and the others
``scheduler``  the scheduler, with kube-scheduler's verdicts and words
``ec2``        EC2 and the few other AWS services that a node autoscaler calls, on one loopback address
``kubelets``   the kubelets of EC2's machines, at any API server
``stack``      all of these and the controller as processes: up, down, status, reset, scenarios
``apiclient``  the client of kubelets and workload controllers, apart from the product's
=============  ==============================================================================================

Nothing of the product imports this package; the product meets it as it meets a cluster and AWS, through addresses.
"""

__all__ = ["apiclient", "ec2", "kube", "kubelets", "scheduler", "stack", "workloads"]
