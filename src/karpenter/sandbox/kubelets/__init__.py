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
``systemnode``    a node of the cluster's own, whose pods may be processes of this machine
``containers``    the life of a pod that is a process
``processes``     such a process: started, stopped, written down
``environment``   its variables and ports
``endpoint``      its log and ports, served to the API server
``behaviour``     what goes wrong, and when
``machines``      the EC2 model's machines over HTTP
``reflecting``    list and watch
``pace``          waiting in the model's time
``settings``      the dials
================  ==========================================================================================

It speaks HTTP to any API server and to the EC2 model, and knows nothing of the product. But for those of the system
node containers are not run, so ``kubectl logs`` and ``port-forward`` find nothing there, and ``exec`` and ``attach``
nowhere; static pods, volumes that must be attached first and evictions by the kubelet itself do not happen.
"""

from karpenter.sandbox.apiclient import Connection, KubeconfigError, read_kubeconfig
from karpenter.sandbox.kubelets.fleet import Fleet
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["Connection", "Fleet", "KubeconfigError", "Settings", "read_kubeconfig"]
