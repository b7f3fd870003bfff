# SPDX-License-Identifier: Apache-2.0
"""Metrics under Karpenter's names, few series by default; the one place that knows prometheus_client.

Series per pod and per node are left out: they are what makes a metrics bill. What is told apart is the pool, the
reason, the zone and the capacity type, each of which has few values. Every registry is its own, so that two
controllers in one process (and two tests) do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_DURATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_LIFETIME_S: Final = (900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 1_296_000, 2_592_000)


class Metrics:
    """Every metric of the product, by attribute; names without the prefix are Karpenter's."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._claims()
        self._nodes()
        self._pools()
        self._pods()
        self._solving()
        self._disruption()
        self._cloud()
        self._own()

    def render(self) -> bytes:
        """Gives all of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"karpenter_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"karpenter_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, labels: Sequence[str] = (), buckets: Sequence[float] = _DURATION_S
    ) -> Histogram:
        return Histogram(f"karpenter_{name}", text, labels, registry=self.registry, buckets=buckets)

    def _claims(self) -> None:
        disruption = ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
        self.claims_created = self._counter(
            "nodeclaims_created",
            "NodeClaims created, by reason and pool.",
            ("reason", "nodepool", "min_values_relaxed"),
        )
        self.claims_terminated = self._counter(
            "nodeclaims_terminated", "NodeClaims that are gone.", ("nodepool", "capacity_type", "zone")
        )
        self.claims_disrupted = self._counter(
            "nodeclaims_disrupted", "NodeClaims that were disrupted, and why.", disruption
        )
        self.unhealthy_disrupted = self._counter(
            "nodeclaims_unhealthy_disrupted",
            "NodeClaims that were replaced because their nodes were broken.",
            ("condition", "nodepool", "capacity_type", "image_id"),
        )
        self.pods_disruption_initiated = self._counter(
            "pods_disruption_initiated", "Pods on nodes that were disrupted, and why.", disruption
        )
        self.instance_termination_seconds = self._histogram(
            "nodeclaims_instance_termination_duration_seconds",
            "From the order to terminate an instance until it is gone.",
            ("nodepool",),
        )
        self.claim_termination_seconds = self._histogram(
            "nodeclaims_termination_duration_seconds",
            "From the deletion of a NodeClaim until it is gone.",
            ("nodepool",),
        )

    def _nodes(self) -> None:
        self.nodes_created = self._counter("nodes_created", "Nodes that joined.", ("nodepool", "zone"))
        self.nodes_terminated = self._counter(
            "nodes_terminated", "Nodes that were taken away.", ("nodepool", "zone")
        )
        self.nodes_drained = self._counter("nodes_drained", "Nodes that were drained.", ("nodepool",))
        self.node_termination_seconds = self._histogram(
            "nodes_termination_duration_seconds",
            "From the deletion of a Node until it is gone.",
            ("nodepool",),
        )
        self.node_lifetime_seconds = self._histogram(
            "nodes_lifetime_duration_seconds", "How long nodes lived.", ("nodepool",), _LIFETIME_S
        )
        self.state_node_count = self._gauge("cluster_state_node_count", "Nodes that we know of.")
        self.state_synced = self._gauge("cluster_state_synced", "1 once every first list has come in.")
        self.utilization = self._gauge(
            "cluster_utilization_percent", "Requested share of what nodes have for pods.", ("resource_type",)
        )

    def _pools(self) -> None:
        amounts = ("resource_type", "nodepool")
        self.pool_limit = self._gauge("nodepools_limit", "Limits of the pools.", amounts)
        self.pool_usage = self._gauge("nodepools_usage", "What their nodes take of the limits.", amounts)
        self.pool_cost = self._gauge("nodepools_cost_total", "Dollars an hour of a pool.", ("nodepool",))
        self.pool_allowed_disruptions = self._gauge(
            "nodepools_allowed_disruptions", "Nodes that budgets let go now.", ("nodepool", "reason")
        )
        self.pool_consuming_budgets = self._gauge(
            "nodepools_nodes_consuming_budgets", "Nodes that use budgets up.", ("nodepool", "reason")
        )

    def _pods(self) -> None:
        self.pod_startup_seconds = self._histogram(
            "pods_startup_duration_seconds", "From a pod's creation until it runs."
        )
        self.pod_bound_seconds = self._histogram(
            "pods_bound_duration_seconds", "From a pod's creation until it is bound."
        )
        self.pod_decision_seconds = self._histogram(
            "pods_scheduling_decision_duration_seconds", "From seeing a pending pod until it is decided on."
        )
        self.eviction_requests = self._counter(
            "pods_eviction_requests", "Evictions asked for, by the server's answer.", ("code",)
        )
        self.pods_drained = self._counter("pods_drained", "Pods drained from nodes.", ("reason",))

    def _solving(self) -> None:
        self.solve_seconds = self._histogram(
            "scheduler_scheduling_duration_seconds", "How long a solve took.", ("controller",)
        )
        self.queue_depth = self._gauge(
            "scheduler_queue_depth", "Pods in the solve that runs now.", ("controller",)
        )
        self.ignored_pods = self._gauge(
            "scheduler_ignored_pods_count", "Pending pods that no node of ours could help."
        )
        self.unschedulable_pods = self._gauge(
            "scheduler_unschedulable_pods_count", "Pods that the last solve refused.", ("controller",)
        )

    def _disruption(self) -> None:
        decided = ("decision", "reason", "consolidation_type")
        self.evaluation_seconds = self._histogram(
            "voluntary_disruption_decision_evaluation_duration_seconds",
            "How long it took to look for a disruption.",
            ("reason", "consolidation_type"),
        )
        self.disruption_decisions = self._counter(
            "voluntary_disruption_decisions",
            "Disruptions decided on.",
            decided,
        )
        self.eligible_nodes = self._gauge(
            "voluntary_disruption_eligible_nodes", "Nodes that could be disrupted.", ("reason",)
        )
        self.disruption_decisions_by_pool = self._counter(
            "voluntary_disruption_decisions_by_nodepool",
            "Disruptions decided on, by pool.",
            (*decided, "nodepool"),
        )
        self.disruption_failures = self._counter(
            "voluntary_disruption_queue_failures", "Disruptions that were taken back.", decided
        )
        self.failed_validations = self._counter(
            "voluntary_disruption_failed_validations",
            "Disruptions that did not hold when looked at again.",
            ("consolidation_type",),
        )
        self.consolidation_timeouts = self._counter(
            "voluntary_disruption_consolidation_timeouts",
            "Searches for a cheaper cluster that were cut off.",
            ("consolidation_type",),
        )
        self.savings = self._counter(
            "disruption_savings_dollars_per_hour",
            "What disruptions promised to save, and what they saved.",
            ("outcome", "reason"),
        )
        self.staying_nodes = self._gauge(
            "disruption_staying_nodes", "Nodes that stay, by why.", ("nodepool", "reason")
        )
        self.staying_cost = self._gauge(
            "disruption_staying_dollars_per_day", "What nodes that stay cost, by why.", ("nodepool", "reason")
        )

    def _cloud(self) -> None:
        self.cloud_seconds = self._histogram(
            "cloudprovider_duration_seconds", "How long the cloud took.", ("method", "provider")
        )
        self.cloud_errors = self._counter(
            "cloudprovider_errors", "Failures of the cloud.", ("method", "provider", "error")
        )
        self.launch_failures = self._counter(
            "cloudprovider_instance_launch_failures",
            "Launches that failed, by cause.",
            ("zone", "capacity_type", "reason"),
        )
        self.interruption_received = self._counter(
            "interruption_received_messages", "Messages from the queue.", ("message_type",)
        )
        self.interruption_deleted = self._counter(
            "interruption_deleted_messages", "Messages that were dealt with."
        )
        self.interruption_queue_seconds = self._histogram(
            "interruption_message_queue_duration_seconds", "How long a message waited in the queue."
        )

    def _own(self) -> None:
        """What the original has no name for."""
        self.planned_price = self._gauge(
            "plan_price_per_hour", "Dollars an hour of the new nodes of the last plan."
        )
        self.plan_bound = self._gauge(
            "plan_lower_bound_per_hour", "What no plan for the same pods could go below."
        )
        self.placements = self._counter(
            "plan_placements", "Planned pods by where they ended up.", ("outcome",)
        )
        self.early_placements = self._counter(
            "plan_early_placements",
            "Pods that we bound to nodes that were not ready, by outcome.",
            ("outcome",),
        )
        self.reconcile_errors = self._counter(
            "reconcile_errors", "Work that failed and is tried again.", ("controller",)
        )
        self.loop_lag_seconds = self._histogram(
            "event_loop_lag_seconds", "How late the event loop woke up a timer."
        )
        self.api_requests = self._gauge(
            "kube_requests", "Requests sent to the API server.", ("verb", "resource")
        )
        self.buffer_cost = self._gauge(
            "capacitybuffers_cost_dollars_per_hour",
            "What the room of a capacity buffer costs: the share of its pods in the nodes that hold them.",
            ("namespace", "capacitybuffer"),
        )
        self.is_leader = self._gauge("leader", "1 while this replica leads.")
