# SPDX-License-Identifier: Apache-2.0
"""A whole sandbox: the stand-ins and the controller as processes of this machine, started, mended and ended together.

================  ==========================================================================================
``home``          where a sandbox lives on disk: its record, kubeconfig, logs and data
``record``        what is written down of one: options, ports, token, processes
``pieces``        which programs it consists of, and how each is called
``children``      one program as a process: start it, tell whether it lives, end it, find its last error
``leash``         what each process runs under: it ends with its owner, or when its time is up
``calls``         plain HTTP to the API and to the EC2 model
``installation``  Karpenter as a Deployment of the cluster
``replicas``      its pods' processes
``manifests``     our definitions, and a NodePool to begin with
``lifecycle``     up, down, status, reset
``scenario``      faults by timetable against a running sandbox
``errors``        what may be said no to
================  ==========================================================================================

The programs are those that a person may start by hand (``karpenter sandbox kube`` and the others); what is here only
starts them with each other's addresses. They meet over HTTP alone.
"""

__all__ = [
    "calls",
    "children",
    "errors",
    "home",
    "installation",
    "leash",
    "lifecycle",
    "manifests",
    "pieces",
    "record",
    "replicas",
    "scenario",
]
