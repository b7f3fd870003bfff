# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of scheduling: frozen values, made once from API objects, equal when they mean the same.

================  ==========================================================================================
``requirements``  what a node's labels may be, and the algebra over it
``resources``     amounts as exact integers, and what a pod asks for
``taints``        which taints of a node keep a pod away
``ports``         which pods cannot share a node because of a host port
``selectors``     label selectors and namespaces, compiled
``affinity``      which nodes a pod needs and which it would like
``volumes``       where a pod's volumes allow it to run, and how many its node must attach
``topology``      what a pod says about other pods
``pods``          small questions about one pod
``spelling``      what a mistyped label was meant to be
``catalogue``     every offering that can be bought, as one bit each, in price order
``pools``         a NodePool as scheduling sees it
``census``        what the pods of a node amount to, counted once
``snapshot``      the cluster at one moment, and who stands where in it
================  ==========================================================================================

Nothing here does I/O, reads a clock or decides where a pod goes.
"""

from karpenter.model.affinity import (
    NodePreference,
    NodeRules,
    NodeTerm,
    compile_term,
    node_rules,
    term_matches,
)
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.pods import (
    DoNotDisrupt,
    do_not_disrupt,
    eviction_cost,
    is_active,
    is_critical,
    is_daemon,
    is_mirror,
    is_provisionable,
    is_reschedulable,
    is_terminal,
    is_terminating,
    stands_for_buffer,
)
from karpenter.model.pools import Pool, in_order, pool_view
from karpenter.model.ports import NO_PORTS, HostPort, HostPorts, PortConflict, host_ports
from karpenter.model.requirements import (
    ENDLESS,
    NO_REQUIREMENTS,
    Conflict,
    Expression,
    Operator,
    Requirement,
    RequirementError,
    Requirements,
    parse_label_integer,
)
from karpenter.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NO_RESOURCES,
    PODS,
    Resources,
    is_sidecar,
    pod_limits,
    pod_requests,
    total,
    with_default_requests,
)
from karpenter.model.selectors import (
    EVERYTHING,
    NOTHING,
    NamespaceSelection,
    Selector,
    compile_selector,
    select_namespaces,
)
from karpenter.model.snapshot import Census, NodeView, Snapshot
from karpenter.model.spelling import nearest_label
from karpenter.model.taints import (
    canonical_tolerations,
    discouraging_taints,
    forbidding_taints,
    is_ephemeral,
    merge_taints,
    same_taint,
    tolerates,
    tolerates_all,
)
from karpenter.model.topology import AffinityRule, CountGroup, SpreadRule, TopologyRules, topology_rules
from karpenter.model.volumes import (
    NO_ATTACHMENTS,
    AttachLimitExceeded,
    Attachments,
    Refusal,
    Storage,
    VolumeDemand,
    VolumeProblem,
    attach_limits,
    attachments,
    volume_demand,
)

__all__ = [
    "CPU",
    "ENDLESS",
    "EPHEMERAL_STORAGE",
    "EVERYTHING",
    "MEMORY",
    "NOTHING",
    "NO_ATTACHMENTS",
    "NO_PORTS",
    "NO_REQUIREMENTS",
    "NO_RESOURCES",
    "PODS",
    "AffinityRule",
    "AttachLimitExceeded",
    "Attachments",
    "Catalogue",
    "Census",
    "Conflict",
    "CountGroup",
    "DoNotDisrupt",
    "Expression",
    "HostPort",
    "HostPorts",
    "InstanceType",
    "NamespaceSelection",
    "NodePreference",
    "NodeRules",
    "NodeTerm",
    "NodeView",
    "Offering",
    "Operator",
    "Pool",
    "PortConflict",
    "Refusal",
    "Requirement",
    "RequirementError",
    "Requirements",
    "Resources",
    "Selector",
    "Snapshot",
    "SpreadRule",
    "Storage",
    "TopologyRules",
    "VolumeDemand",
    "VolumeProblem",
    "attach_limits",
    "attachments",
    "canonical_tolerations",
    "compile_selector",
    "compile_term",
    "discouraging_taints",
    "do_not_disrupt",
    "eviction_cost",
    "forbidding_taints",
    "host_ports",
    "in_order",
    "is_active",
    "is_critical",
    "is_daemon",
    "is_ephemeral",
    "is_mirror",
    "is_provisionable",
    "is_reschedulable",
    "is_sidecar",
    "is_terminal",
    "is_terminating",
    "merge_taints",
    "nearest_label",
    "node_rules",
    "parse_label_integer",
    "pod_limits",
    "pod_requests",
    "pool_view",
    "same_taint",
    "select_namespaces",
    "stands_for_buffer",
    "term_matches",
    "tolerates",
    "tolerates_all",
    "topology_rules",
    "total",
    "volume_demand",
    "with_default_requests",
]
