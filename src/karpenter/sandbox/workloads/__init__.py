# SPDX-License-Identifier: Apache-2.0
"""kube-controller-manager and kube-scheduler as far as users notice, at any API server, over HTTP.

=================  =======================================================================================
``manager``        ``Manager``: all of it in one process; the one way in
``resources``      the kinds, and questions about any object
``caching``        what the server has, kept here
``world``          what every controller has at hand
``deployments``    rollouts; their arithmetic is in ``rolling``
``replicasets``    as many pods as are asked for
``statefulsets``   pods with names and volumes of their own
``daemonsets``     one pod a node; histories for both are in ``revisions``
``jobs``           pods that end; ``cronjobs`` starts them by the clock
``budgets``        how many pods may be evicted
``nodelifecycle``  silent nodes, taints, and pods that do not bear them
``garbage``        owners and what they own
``namespaces``     emptied before they go
``housekeeping``   accounts, lost pods, old events
``volumes``        claims and volumes; ``attachments`` puts them on nodes
``keda``           timetables of ScaledObjects
``binding``        the scheduler's hands
=================  =======================================================================================

Left out: endpoints, horizontal autoscaling, resource quotas, tokens, and ReplicationControllers.
"""

from karpenter.sandbox.workloads.manager import Manager
from karpenter.sandbox.workloads.settings import Settings

__all__ = ["Manager", "Settings"]
