# SPDX-License-Identifier: Apache-2.0
"""Every metric of the product, declared once: Karpenter's names, types and labels first, then our own.

What is told apart is the pool, the reason, the zone and the capacity type, each of which has few values. Metrics with a
series for each pod, node or offering are what makes a metrics bill: they name the ``Detail`` that switches them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from karpenter.api import labels as names
from karpenter.observe.declaring import Detail, counter, gauge, histogram, readings, summary

__all__ = ["NODE_LABELS", "Catalogue"]

# Those of Go's library, which Karpenter takes where it names none.
_USUAL_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Fewer, for what there are many of.
_COARSE_S: Final = (*_USUAL_S, 30, 60, 120, 300, 600)
_EXPONENTIAL_S: Final = tuple(float(2**each) for each in range(12))
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_LIFETIME_S: Final = (
    *(15 * _MINUTE_S, 30 * _MINUTE_S, 45 * _MINUTE_S),
    *(each * _HOUR_S for each in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
    *(each * _DAY_S for each in (1, 2, 3, 5, 10, 15, 20, 25, 30)),
)
_SCORES: Final = (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0)
_BATCH_SIZES: Final = (
    *(1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 225, 250, 275, 300),
    *(350, 400, 450, 500, 550, 600, 700, 800, 900, 1000),
)
_DISRUPTED: Final = ("reason", "nodepool", "capacity_type")
_DECIDED: Final = ("decision", "reason", "consolidation_type")
_OFFERING: Final = ("instance_type", "capacity_type", "zone")
_POD: Final = ("name", "namespace")

# The labels of node metrics, and the node's own label that each is read from.
NODE_LABELS: Final[Mapping[str, str]] = {
    key.rpartition("/")[2].lower().replace("-", "_"): key for key in sorted(names.WELL_KNOWN)
}
_NODE: Final = (*NODE_LABELS, "node_name", "phase", "managed")
_NODE_RESOURCE: Final = (*_NODE, "resource_type")


class _Claims:
    """NodeClaims."""

    claims_created = counter(
        "karpenter_nodeclaims_created_total",
        "NodeClaims created, by reason and pool, and whether minValues were relaxed.",
        *("reason", "nodepool", "min_values_relaxed"),
    )
    claims_terminated = counter(
        "karpenter_nodeclaims_terminated_total",
        "NodeClaims that are gone.",
        *("nodepool", "capacity_type", "zone"),
    )
    claims_disrupted = counter(
        "karpenter_nodeclaims_disrupted_total", "NodeClaims that were disrupted, and why.", *_DISRUPTED
    )
    unhealthy_disrupted = counter(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        "NodeClaims that were replaced because their nodes were broken.",
        *("condition", "nodepool", "capacity_type", "image_id"),
    )
    instance_termination_seconds = histogram(
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        "From the order to terminate an instance until it is gone.",
        "nodepool",
        buckets=_EXPONENTIAL_S[:11],
    )
    claim_termination_seconds = histogram(
        "karpenter_nodeclaims_termination_duration_seconds",
        "From the deletion of a NodeClaim until it is gone.",
        "nodepool",
        buckets=_EXPONENTIAL_S,
    )


class _Nodes:
    """Nodes, and the cluster as a whole."""

    nodes_created = counter("karpenter_nodes_created_total", "Nodes that joined.", "nodepool", "zone")
    nodes_terminated = counter(
        "karpenter_nodes_terminated_total", "Nodes that were taken away.", "nodepool", "zone"
    )
    nodes_drained = counter("karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool")
    node_termination_seconds = summary(
        "karpenter_nodes_termination_duration_seconds",
        "From the deletion of a Node until it is gone.",
        "nodepool",
    )
    node_lifetime_seconds = histogram(
        "karpenter_nodes_lifetime_duration_seconds", "How long nodes lived.", "nodepool", buckets=_LIFETIME_S
    )
    node_allocatable = readings(
        "karpenter_nodes_allocatable", "What a node has for pods.", *_NODE_RESOURCE, detail=Detail.NODES
    )
    node_pod_requests = readings(
        "karpenter_nodes_total_pod_requests",
        "What the pods of a node request, those of DaemonSets included.",
        *_NODE_RESOURCE,
        detail=Detail.NODES,
    )
    node_pod_limits = readings(
        "karpenter_nodes_total_pod_limits",
        "What the pods of a node are limited to, those of DaemonSets included.",
        *_NODE_RESOURCE,
        detail=Detail.NODES,
    )
    node_daemon_requests = readings(
        "karpenter_nodes_total_daemon_requests",
        "What the pods of DaemonSets on a node request.",
        *_NODE_RESOURCE,
        detail=Detail.NODES,
    )
    node_daemon_limits = readings(
        "karpenter_nodes_total_daemon_limits",
        "What the pods of DaemonSets on a node are limited to.",
        *_NODE_RESOURCE,
        detail=Detail.NODES,
    )
    node_overhead = readings(
        "karpenter_nodes_system_overhead",
        "The capacity of a node that is not for pods.",
        *_NODE_RESOURCE,
        detail=Detail.NODES,
    )
    node_age_seconds = readings(
        "karpenter_nodes_current_lifetime_seconds", "The age of a node.", *_NODE, detail=Detail.NODES
    )
    state_node_count = gauge("karpenter_cluster_state_node_count", "Nodes that we know of.")
    state_synced = gauge("karpenter_cluster_state_synced", "1 once every first list has come in.")
    state_unsynced_seconds = gauge(
        "karpenter_cluster_state_unsynced_time_seconds", "For how long some first list has been missing."
    )
    utilization = readings(
        "karpenter_cluster_utilization_percent",
        "Requested share of what nodes have for pods.",
        "resource_type",
    )


class _Pools:
    """NodePools and EC2NodeClasses."""

    pool_limit = readings("karpenter_nodepools_limit", "Limits of the pools.", "resource_type", "nodepool")
    pool_usage = readings(
        "karpenter_nodepools_usage", "What their nodes take of the limits.", "resource_type", "nodepool"
    )
    pool_cost = readings("karpenter_nodepools_cost_total", "Dollars an hour of a pool.", "nodepool")
    pool_cost_errors = counter(
        "karpenter_nodepools_cost_tracker_errors_total", "Nodes whose price is not known.", "nodepool"
    )
    pool_allowed_disruptions = readings(
        "karpenter_nodepools_allowed_disruptions",
        "Nodes that budgets let be on their way out at once.",
        "nodepool",
        "reason",
    )
    pool_consuming_budgets = readings(
        "karpenter_nodepools_nodes_consuming_budgets", "Nodes that use budgets up.", "nodepool", "reason"
    )
    userdata_bytes = gauge(
        "karpenter_ec2nodeclasses_userdata_bytes",
        "Size of the user data that was last rendered for a node class, before base64.",
        "nodeclass",
    )


class _Pods:
    """Pods."""

    pod_state = readings(
        "karpenter_pods_state",
        "1 for each pod, with where it is and how it is.",
        *("name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type"),
        *("instance_type", "phase", "ready", "managed"),
        detail=Detail.PODS,
    )
    pod_startup_seconds = summary(
        "karpenter_pods_startup_duration_seconds", "From a pod's creation until it is ready."
    )
    pod_unstarted_seconds = readings(
        "karpenter_pods_unstarted_time_seconds",
        "How long a pod that is not ready yet has existed.",
        *_POD,
        detail=Detail.PODS,
    )
    pod_bound_seconds = histogram(
        "karpenter_pods_bound_duration_seconds", "From a pod's creation until it is bound."
    )
    pod_unbound_seconds = readings(
        "karpenter_pods_unbound_time_seconds",
        "How long a pod that is not bound yet has existed.",
        *_POD,
        detail=Detail.PODS,
    )
    pod_planned_bound_seconds = histogram(
        "karpenter_pods_provisioning_bound_duration_seconds",
        "From when a pod was first planned onto a node until it is bound.",
    )
    pod_planned_unbound_seconds = readings(
        "karpenter_pods_provisioning_unbound_time_seconds",
        "How long ago a pod that is not bound yet was first planned onto a node.",
        *_POD,
        detail=Detail.PODS,
    )
    pod_planned_startup_seconds = histogram(
        "karpenter_pods_provisioning_startup_duration_seconds",
        "From when a pod was first planned onto a node until it is ready.",
    )
    pod_planned_unstarted_seconds = readings(
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "How long ago a pod that is not ready yet was first planned onto a node.",
        *_POD,
        detail=Detail.PODS,
    )
    pod_undecided_seconds = readings(
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "How long a pending pod that was seen has waited to be decided on.",
        *_POD,
        detail=Detail.PODS,
    )
    pod_decision_seconds = histogram(
        "karpenter_pods_scheduling_decision_duration_seconds",
        "From seeing a pending pod until it is first decided on.",
    )
    eviction_requests = counter(
        "karpenter_pods_eviction_requests_total", "Evictions asked for, by the server's answer.", "code"
    )
    pods_drained = counter("karpenter_pods_drained_total", "Pods drained from nodes.", "reason")


class _Solving:
    """Solves."""

    solve_seconds = histogram(
        "karpenter_scheduler_scheduling_duration_seconds", "How long a solve took.", "controller"
    )
    queue_depth = gauge(
        "karpenter_scheduler_queue_depth", "Pods in a solve that runs now.", "controller", "scheduling_id"
    )
    unfinished_work_seconds = gauge(
        "karpenter_scheduler_unfinished_work_seconds",
        "How long a solve that runs now has taken.",
        *("controller", "scheduling_id"),
    )
    ignored_pods = gauge(
        "karpenter_scheduler_ignored_pods_count", "Pending pods that no node of ours could help."
    )
    unschedulable_pods = gauge(
        "karpenter_scheduler_unschedulable_pods_count", "Pods that the last solve refused.", "controller"
    )
    pending_pods_by_zone = readings(
        "karpenter_scheduler_pending_pods_by_effective_zone_count",
        "Pending pods of the last solve by the zone that they are bound to: its name, flexible for several, or none.",
        *("controller", "zone"),
    )


class _Disruption:
    """Taking nodes away."""

    evaluation_seconds = histogram(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        "How long it took to look for a disruption.",
        *("reason", "consolidation_type"),
    )
    disruption_decisions = counter(
        "karpenter_voluntary_disruption_decisions_total", "Disruptions decided on.", *_DECIDED
    )
    disruption_decisions_by_pool = counter(
        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        "Disruptions decided on, by pool.",
        *(*_DECIDED, "nodepool"),
    )
    eligible_nodes = gauge(
        "karpenter_voluntary_disruption_eligible_nodes", "Nodes that could be disrupted.", "reason"
    )
    disruption_failures = counter(
        "karpenter_voluntary_disruption_queue_failures_total", "Disruptions that were taken back.", *_DECIDED
    )
    failed_validations = counter(
        "karpenter_voluntary_disruption_failed_validations_total",
        "Disruptions that did not hold when looked at again.",
        "consolidation_type",
    )
    consolidation_timeouts = counter(
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "Searches for a cheaper cluster that were cut off.",
        "consolidation_type",
    )
    consolidation_moves = counter(
        "karpenter_consolidation_moves_total",
        "Moves that consolidation decided on, and moves that the policy Balanced refused.",
        *("decision", "nodepool", "policy"),
    )
    consolidation_score = histogram(
        "karpenter_consolidation_score",
        "What moves save for what they disturb, in pools with the policy Balanced.",
        *("decision", "nodepool", "policy"),
        buckets=_SCORES,
    )


class _Cloud:
    """AWS."""

    cloud_seconds = histogram(
        "karpenter_cloudprovider_duration_seconds",
        "How long the cloud took, by what was asked of it and by which controller.",
        *("controller", "method", "provider"),
        buckets=_USUAL_S,
    )
    cloud_errors = counter(
        "karpenter_cloudprovider_errors_total",
        "Failures of the cloud.",
        *("controller", "method", "provider", "error"),
    )
    launch_failures = counter(
        "karpenter_cloudprovider_instance_launch_failures_total",
        "Offerings that a launch failed for, by cause.",
        *("zone", "zone_id", "capacity_type", "reason"),
    )
    termination_failures = counter(
        "karpenter_cloudprovider_instance_termination_failures_total",
        "Terminations that EC2 refused or did not answer.",
        *("zone", "zone_id"),
    )
    type_cpu_cores = readings(
        "karpenter_cloudprovider_instance_type_cpu_cores",
        "Cores of an instance type.",
        "instance_type",
        detail=Detail.INSTANCE_TYPES,
    )
    type_memory_bytes = readings(
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "Memory of an instance type.",
        "instance_type",
        detail=Detail.INSTANCE_TYPES,
    )
    offering_available = readings(
        "karpenter_cloudprovider_instance_type_offering_available",
        "1 if an offering can be bought, as far as is known.",
        *_OFFERING,
        detail=Detail.INSTANCE_TYPES,
    )
    offering_price = readings(
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
        "Dollars an hour of an offering, as decisions reckon with it.",
        *_OFFERING,
        detail=Detail.INSTANCE_TYPES,
    )
    batch_seconds = histogram(
        "karpenter_cloudprovider_batcher_batch_time_seconds",
        "How long requests were gathered into one call.",
        "batcher",
    )
    batch_size = histogram(
        "karpenter_cloudprovider_batcher_batch_size",
        "Requests that went into one call.",
        "batcher",
        buckets=_BATCH_SIZES,
    )
    interruption_received = counter(
        "karpenter_interruption_received_messages_total", "Messages from the queue.", "message_type"
    )
    interruption_deleted = counter(
        "karpenter_interruption_deleted_messages_total", "Messages that were dealt with."
    )
    interruption_queue_seconds = histogram(
        "karpenter_interruption_message_queue_duration_seconds", "How long a message waited in the queue."
    )
    unhealthy_instances = counter(
        "karpenter_interruption_instance_status_unhealthy_total",
        "Instances that EC2's status checks found unhealthy.",
        "category",
    )


class _Process:
    """The process itself: what controller-runtime and Go's libraries show, as far as it has a meaning here."""

    build_info = gauge(
        "karpenter_build_info",
        "Always 1; the labels say what was built. `goversion` has the version of Python.",
        *("version", "goversion", "goarch", "commit"),
    )
    reconciles = counter(
        "controller_runtime_reconcile_total",
        "Reconciliations by controller and result.",
        *("controller", "result"),
    )
    reconcile_failures = counter(
        "controller_runtime_reconcile_errors_total", "Reconciliations that failed.", "controller"
    )
    reconcile_seconds = histogram(
        "controller_runtime_reconcile_time_seconds",
        "How long a reconciliation took.",
        "controller",
        buckets=_COARSE_S,
    )
    workqueue_depth = gauge(
        "workqueue_depth", "Keys that wait for a worker of a controller.", "name", "controller"
    )
    leader_status = gauge("leader_election_master_status", "1 while this replica holds the lease.", "name")


class _Own:
    """What Karpenter has no name for."""

    interruption_refused = counter(
        "karpenter_interruption_refused_messages_total",
        "Messages from the queue that were not obeyed: of another account, or not fitting their instance.",
        "reason",
    )
    price_age_seconds = gauge(
        "karpenter_cloudprovider_price_age_seconds",
        "How long ago prices were last read; NaN while those of the package are used.",
        "capacity_type",
    )
    pods_disruption_initiated = counter(
        "karpenter_pods_disruption_initiated_total",
        "Pods on nodes that were disrupted, and why.",
        *(*_DISRUPTED, "consolidation_policy"),
    )
    savings = counter(
        "karpenter_disruption_savings_dollars_per_hour_total",
        "What disruptions promised to save, and what they saved.",
        *("outcome", "reason"),
    )
    staying_nodes = readings(
        "karpenter_disruption_staying_nodes", "Nodes that stay, by why.", "nodepool", "reason"
    )
    staying_cost = readings(
        "karpenter_disruption_staying_dollars_per_day",
        "What nodes that stay cost, by why.",
        *("nodepool", "reason"),
    )
    planned_price = gauge(
        "karpenter_plan_price_per_hour", "Dollars an hour of the new nodes of the last plan."
    )
    plan_bound = gauge(
        "karpenter_plan_lower_bound_per_hour", "What no plan for the same pods could go below."
    )
    placements = counter("karpenter_plan_placements_total", "Planned pods by where they ended up.", "outcome")
    early_placements = counter(
        "karpenter_plan_early_placements_total",
        "Pods that we bound to nodes that were not ready, by outcome.",
        "outcome",
    )
    reconcile_errors = counter(
        "karpenter_reconcile_errors_total", "Work that failed and is tried again.", "controller"
    )
    loop_lag_seconds = histogram(
        "karpenter_event_loop_lag_seconds", "How late the event loop woke up a timer.", buckets=_COARSE_S
    )
    aws_request_seconds = histogram(
        "karpenter_aws_request_duration_seconds",
        "How long requests to AWS took.",
        *("service", "operation"),
        buckets=_USUAL_S,
    )
    aws_request_errors = counter(
        "karpenter_aws_request_errors_total",
        "Requests to AWS that failed, by AWS' code.",
        *("service", "operation", "code"),
    )
    api_requests = readings("karpenter_kube_requests", "Requests sent to the API server.", "verb", "resource")
    unreadable = gauge(
        "karpenter_kube_unreadable_objects", "Objects on the API server that do not decode.", "resource"
    )
    heard_ago_seconds = gauge(
        "karpenter_kube_heard_ago_seconds",
        "Seconds since the API server last proved that our copy of a kind lacks nothing.",
        "resource",
    )
    launch_intents_set_aside = counter(
        "karpenter_launch_intents_set_aside_total",
        "Launch intents that could not be read or were not ours.",
    )
    collection_held_back = counter(
        "karpenter_garbage_collection_held_back_total",
        "Rounds of garbage collection that ended less than they found, and why.",
        "reason",
    )
    buffer_cost = readings(
        "karpenter_capacitybuffers_cost_dollars_per_hour",
        "What the room of a capacity buffer costs: the share of its pods in the nodes that hold them.",
        *("namespace", "capacitybuffer"),
    )
    is_leader = gauge("karpenter_leader", "1 while this replica leads.")


class Catalogue(_Claims, _Nodes, _Pools, _Pods, _Solving, _Disruption, _Cloud, _Process, _Own):
    """All of them."""
