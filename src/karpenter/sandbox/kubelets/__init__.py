# SPDX-License-Identifier: Apache-2.0
"""The kubelets of a whole cluster in one process: machines of the EC2 model become Nodes, and pods run on them.

================  ==========================================================================================
``fleet``         ``Fleet``: all kubelets of a cluster; the one way in
``kubelet``       one kubelet: joins, reports, keeps its lease, runs pods
``boot``          what a machine learns from its user data
``kubeletconfig`` what a kubelet is told by flags and configuration
``capacity``      how large a machine turns out to be
``nodeobjects``   Node, Lease and CSINode as kubelets write them
``admission``     whether a kubelet takes a pod
``pods``          the life of a pod
``podstatus``     the statuses on the way
``behaviour``     what goes wrong, and when
``machines``      the EC2 model's machines over HTTP
``reflecting``    list and watch
``pace``          waiting in the model's time
``settings``      the dials
================  ==========================================================================================

It speaks HTTP to any API server and to the EC2 model, and knows nothing of the product. Containers are not run, so
``kubectl logs``, ``exec``, ``attach`` and ``port-forward`` find nobody; static pods, probes that fail, volumes that
must be attached first and evictions by the kubelet itself do not happen.
"""

from karpenter.sandbox.apiclient import Connection, KubeconfigError, read_kubeconfig
from karpenter.sandbox.kubelets.fleet import Fleet
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["Connection", "Fleet", "KubeconfigError", "Settings", "read_kubeconfig"]
