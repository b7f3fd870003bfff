# SPDX-License-Identifier: Apache-2.0
"""Speaks HTTP to an API server; nothing else of the product does.

===============  ===========================================================================================
``config``       where the server is and who we are: kubeconfig, or the pod's service account
``credentials``  tokens that rotate, credential plugins, certificates
``kinds``        the kinds we speak about: paths and types
``decoding``     objects, lists and events from JSON, and what does not decode
``client``       reads, patches, deletes, evictions, watches; retries and the rate limit
``informer``     a copy of one kind that follows the server, with indexes
``events``       Kubernetes Events, said once
``lease``        one leader among the replicas, and the fence that every write passes
``errors``       one class for each thing that a caller does about a failure
===============  ===========================================================================================
"""

from karpenter.kube.client import APPLY, JSON_PATCH, MERGE_PATCH, Client
from karpenter.kube.config import (
    ClusterConfig,
    ExecPlugin,
    Identity,
    in_cluster,
    load_config,
    read_kubeconfig,
)
from karpenter.kube.decoding import Listing, Undecodable, Watched
from karpenter.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConfigError,
    ConflictError,
    FencedError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    SilentWatchError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)
from karpenter.kube.events import Recorder, Subject
from karpenter.kube.informer import Change, Informer, Key
from karpenter.kube.kinds import Kind
from karpenter.kube.lease import Elector, LeaseTimes
from karpenter.kube.limits import Allowance

__all__ = [
    "APPLY",
    "JSON_PATCH",
    "MERGE_PATCH",
    "Allowance",
    "AlreadyExistsError",
    "ApiError",
    "Change",
    "Client",
    "ClusterConfig",
    "ConfigError",
    "ConflictError",
    "Elector",
    "ExecPlugin",
    "FencedError",
    "ForbiddenError",
    "GoneError",
    "Identity",
    "Informer",
    "InvalidError",
    "Key",
    "Kind",
    "KubeError",
    "LeaseTimes",
    "Listing",
    "NotFoundError",
    "Recorder",
    "ServerError",
    "SilentWatchError",
    "Subject",
    "TooManyRequestsError",
    "UnauthorizedError",
    "Undecodable",
    "UnreachableError",
    "UnreadableError",
    "Watched",
    "in_cluster",
    "load_config",
    "read_kubeconfig",
]
