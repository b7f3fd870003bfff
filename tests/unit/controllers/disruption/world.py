# SPDX-License-Identifier: Apache-2.0
"""A cluster on paper in which time passes: claims become nodes, deleted ones are drained, pods come back elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karpenter.api import labels as names
from karpenter.api.core import Node, Pod
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.consolidation import pool_policy, propose, validate
from karpenter.controllers.departures import Departures
from karpenter.controllers.disruption import Disruption, DisruptionSettings, Rules
from karpenter.controllers.provisioning import Market
from karpenter.controllers.provisioning.nominating import Nominator
from karpenter.controllers.provisioning.orders import Orders
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Cluster, Informers
from tests.unit.controllers.paper import PaperClient
from tests.unit.state.worlds import stored_class, stored_pool

ZONE = "us-west-2a"
LONG_AGO = "2025-12-31T00:00:00Z"
SOLD = {"c5.large": ("2", "4Gi", 0.085), "m5.large": ("2", "8Gi", 0.096), "m5.xlarge": ("4", "16Gi", 0.192)}


class Crash(BaseException):
    """The process ends here."""


class Shop:
    """The part of a cloud that is asked for what it sells."""

    name = "paper"
    node_class_kind = AwsProvider.node_class_kind

    def __init__(self) -> None:
        self.types: Sequence[InstanceType] = tuple(_sold(name) for name in SOLD)

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Sell the same to all."""
        del pool, node_class
        return self.types


def _sold(name: str) -> InstanceType:
    cpu, memory, price = SOLD[name]
    size = Resources.parse({"cpu": cpu, "memory": memory, "pods": "29"})
    labels = {names.ARCH: "amd64", names.OS: "linux"}
    return InstanceType(name, labels, size, size, (Offering(ZONE, "on-demand", price),))


class MortalClient(PaperClient):
    """Dies after so many writes: the write is done, and nobody hears of it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.writes_left: int | None = None
        self.is_dead = False

    async def create(self, kind: Any, manifest: Mapping[str, Any], namespace: str = "") -> Any:
        """Store a new object."""
        return self._survived(await super().create(kind, manifest, namespace))

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        """Merge a patch into an object."""
        return self._survived(await super().patch(*arguments, **options))

    async def delete(self, *arguments: Any, **options: Any) -> None:
        """Delete an object, or mark it if finalizers hold it."""
        await super().delete(*arguments, **options)
        self._survived(None)

    def _survived(self, answer: Any) -> Any:
        if self.is_dead:
            raise Crash
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                self.is_dead = True
                raise Crash
        return answer


class Store:
    """Keeps a text, as a ConfigMap would."""

    def __init__(self) -> None:
        self.text = ""

    async def load(self) -> str:
        """Give the text."""
        return self.text

    async def save(self, text: str) -> None:
        """Keep the text."""
        self.text = text


class World:
    """A cluster, who takes nodes away from it, and everything around that makes it live."""

    def __init__(self, **disruption: Any) -> None:
        self.clock = FakeClock()
        self.client = MortalClient(self.clock)
        self.shop = Shop()
        self.store = Store()
        self.launches = True
        self.settings = DisruptionSettings()
        self.propose: Callable[..., Any] = propose
        self.evicted: list[str] = []
        self._born = 0
        self._generation = 2
        self.client.store(STORED_NODE_CLASSES, stored_class())
        self.pool(**disruption)
        self.start()

    def start(self) -> None:
        """Begin a new process on what the API server has."""
        self.client.is_dead, self.client.writes_left = False, None
        informers = Informers.of(self.client, clock=self.clock)
        self.client.informers = None
        for informer in informers.all:
            for raw in list(self.client._objects.get(informer.kind.plural, {}).values()):
                informer.observe(self.client._decoded(informer.kind, raw))
        self.client.informers = informers
        self.cluster = Cluster(informers, clock=self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.metrics = Metrics()
        self.market = Market(self.cluster, self.shop)  # type: ignore[arg-type]
        self.nominator = Nominator(self.client, self.cluster)
        self.departures = Departures(self.clock)
        self.disruption = Disruption(
            client=self.client,
            cluster=self.cluster,
            catalogues=self.market.catalogues,
            orders=Orders(self.client, self.cluster, self.metrics, controller="disruption"),
            nominate=self.nominator.renew,
            rules=Rules(self.propose, validate, pool_policy),
            store=self.store,
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=self.metrics,
            clock=self.clock,
            settings=self.settings,
            departures=self.departures,
        )

    def pool(self, name: str = "default", annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Put a ready pool in place."""
        self._generation += 1
        ready = [
            {"type": kind, "status": "True", "observedGeneration": 3, "lastTransitionTime": LONG_AGO}
            for kind in ("ValidationSucceeded", "NodeClassReady", "Ready")
        ]
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **spec.pop("disruption", {})}
        whole = {**dict(stored_pool(name).spec), "limits": {}, "disruption": disruption, **spec}
        made = {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "generation": self._generation,
                "annotations": annotations or {},
            },
            "spec": whole,
            "status": {"conditions": ready},
        }
        self.client.store(STORED_NODE_POOLS, made)

    def node(self, name: str, kind: str = "m5.large", **metadata: Any) -> None:
        """Put a node of ours with its claim in place, ready for work for a long time."""
        made = {
            "metadata": {
                "name": f"claim-{name}",
                "labels": self._labels(kind),
                "finalizers": [names.TERMINATION_FINALIZER],
                "creationTimestamp": LONG_AGO,
                "uid": f"uid-claim-{name}",
                "generation": 1,
                **metadata,
            },
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
        }
        self.client.store(NODE_CLAIMS, made)
        self._joined(f"claim-{name}", name, kind, LONG_AGO)

    def pods(
        self, number: int, node: str = "", *, app: str = "web", memory: str = "1Gi", **parts: Any
    ) -> None:
        """Put pods of one ReplicaSet on a node."""
        for _ in range(number):
            self._pod(app, node, memory, **parts)
        made = {
            "metadata": {"name": app, "namespace": "shop", "uid": f"uid-{app}"},
            "spec": {"replicas": number},
        }
        self.client.store(REPLICA_SETS, made)

    def budget(self, app: str, allowed: int) -> None:
        """Put a PodDisruptionBudget in place."""
        made = {
            "metadata": {"name": app, "namespace": "shop", "uid": f"uid-pdb-{app}"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.client.store(POD_DISRUPTION_BUDGETS, made)

    def _pod(self, app: str, node: str, memory: str, **parts: Any) -> Pod:
        self._born += 1
        requests = {"cpu": "100m", "memory": memory}
        metadata = parts.pop("metadata", {})
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": app,
            "uid": f"uid-{app}",
            "controller": True,
        }
        made = {
            "metadata": {
                "name": f"{app}-{self._born}",
                "namespace": "shop",
                "uid": f"uid-pod-{self._born}",
                "labels": {"app": app},
                "ownerReferences": [owner],
                "creationTimestamp": LONG_AGO,
                **metadata,
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
                **parts,
            },
            "status": {"phase": "Running" if node else "Pending"},
        }
        stored: Pod = self.client.store(PODS, made)
        return stored

    def _labels(self, kind: str) -> dict[str, str]:
        return {
            names.NODEPOOL: "default",
            names.INSTANCE_TYPE: kind,
            names.ZONE: ZONE,
            names.CAPACITY_TYPE: "on-demand",
            names.ARCH: "amd64",
            names.OS: "linux",
            names.EC2NODECLASS: "default",
        }

    def _joined(self, claim: str, name: str, kind: str, since: str) -> None:
        cpu, memory, _ = SOLD[kind]
        provider_id = f"aws:///{ZONE}/i-{name}"
        size = {"cpu": cpu, "memory": memory, "pods": "29"}
        node = {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {
                    **self._labels(kind),
                    names.REGISTERED: "true",
                    names.INITIALIZED: "true",
                    names.HOSTNAME: name,
                },
                "finalizers": [names.TERMINATION_FINALIZER],
            },
            "spec": {"providerID": provider_id},
            "status": {
                "allocatable": size,
                "capacity": size,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            },
        }
        self.client.store(NODES, node)
        raw = dict(self.client.raw_object(NODE_CLAIMS, claim) or {})
        raw["metadata"] = {**raw["metadata"], "labels": {**raw["metadata"]["labels"], **self._labels(kind)}}
        raw["status"] = {
            "providerID": provider_id,
            "nodeName": name,
            "capacity": size,
            "allocatable": size,
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": since, "observedGeneration": 1}
                for each in ("Launched", "Registered", "Initialized", "Ready")
            ],
        }
        self.client.store(NODE_CLAIMS, raw)

    @property
    def claims(self) -> list[NodeClaim]:
        """The claims, by name."""
        return sorted(self.cluster.informers.claims, key=lambda each: each.metadata.name)

    @property
    def nodes(self) -> list[Node]:
        """The nodes, by name."""
        return sorted(self.cluster.informers.nodes, key=lambda each: each.metadata.name)

    @property
    def kinds(self) -> list[str]:
        """The types of the nodes."""
        return sorted(each.metadata.labels[names.INSTANCE_TYPE] for each in self.nodes)

    @property
    def tainted(self) -> list[str]:
        """The nodes with our taint."""
        return [
            each.metadata.name
            for each in self.nodes
            if any(taint.key == names.DISRUPTED_TAINT.key for taint in each.spec.taints)
        ]

    @property
    def marked(self) -> list[str]:
        """The claims with a record of one that goes."""
        return [
            each.metadata.name
            for each in self.claims
            if '"role":"launch"'
            not in each.metadata.annotations.get(names.DISRUPTION_COMMAND, '"role":"launch"')
        ]

    @property
    def told(self) -> list[tuple[str, str]]:
        """The events that wait to be sent: kind of object and reason."""
        return [(each.subject.kind, each.reason) for each in self.recorder._queue]

    async def look(self) -> float | None:
        """Let the controller look once and take the first steps of what it begins."""
        again_s = await self.disruption.look()
        await self.step()
        return again_s

    async def step(self) -> None:
        """Let every command do what it can now."""
        for key in tuple(self.disruption.execution.running):
            await self.disruption.reconcile(key)

    async def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass and the rest of the cluster do its work."""
        await self.clock.advance(seconds)
        self.live()

    def live(self) -> None:
        """Let the rest of the cluster do its work: launch, drain, end, bind."""
        for claim in self.claims:
            if claim.metadata.deletion_timestamp is not None:
                self._end(claim)
            elif not claim.status.provider_id and self.launches:
                wanted = next(
                    each.values for each in claim.spec.requirements if each.key == names.INSTANCE_TYPE
                )
                kind = min(wanted, key=lambda each: SOLD[each][2])
                now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                self._joined(claim.metadata.name, f"node-{claim.metadata.name}", kind, now)
        for pod in self.cluster.unbound():
            self._bind(pod)

    def _end(self, claim: NodeClaim) -> None:
        for pod in self.cluster.pods_on(claim.status.node_name):
            self.evicted.append(pod.metadata.name)
            raw = self.client.raw_object(PODS, pod.metadata.name, "shop")
            assert raw is not None
            self.client._drop(PODS, raw)
            app = pod.metadata.labels["app"]
            self._pod(app, "", str(pod.spec.containers[0].resources.requests["memory"]))
        for kind, name in ((NODES, claim.status.node_name), (NODE_CLAIMS, claim.metadata.name)):
            raw = self.client.raw_object(kind, name)
            if raw is not None:
                self.client._drop(kind, raw)

    def _bind(self, pod: Pod) -> None:
        """Bind as the scheduler would: where it is nominated, else anywhere with room and without our taint."""
        promised = self.cluster.nominations.member_of(pod.metadata.uid)
        member = self.cluster.member(promised) if promised else None
        first = [member.name] if member is not None and member.node is not None else []
        others = [each.metadata.name for each in self.nodes if each.metadata.name not in self.tainted]
        asked = Resources.parse(pod.spec.containers[0].resources.requests)
        for name in (*first, *others):
            node = self.cluster.informers.nodes.get(name)
            assert node is not None
            used = sum(
                Resources.parse(each.spec.containers[0].resources.requests)["memory"]
                for each in self.cluster.pods_on(name)
            )
            if used + asked["memory"] <= Resources.parse(node.status.allocatable)["memory"]:
                raw = dict(self.client.raw_object(PODS, pod.metadata.name, "shop") or {})
                raw["spec"] = {**raw["spec"], "nodeName": name}
                raw["status"] = {"phase": "Running"}
                self.client.store(PODS, raw)
                return

    async def until_quiet(self, rounds: int = 40) -> None:
        """Let the controller and the cluster work until nothing is under way and nothing is proposed."""
        quiet = 0
        for _ in range(rounds):
            await self.look()
            await self.pass_time(4.0)
            quiet = 0 if self.disruption.execution.running else quiet + 1
            if quiet > 1:
                return
        raise AssertionError("it does not come to rest")
