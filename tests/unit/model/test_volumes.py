# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.api.core import (
    AWSElasticBlockStoreSource,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIVolumeSource,
    EphemeralVolumeSource,
    HostPathSource,
    LocalSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from karpenter.api.meta import ObjectMeta
from karpenter.model.requirements import NO_REQUIREMENTS
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

ZONE = "topology.kubernetes.io/zone"
EBS = "ebs.csi.aws.com"
THEN = datetime(2026, 3, 1, tzinfo=UTC)


def pod(*claims: str, ephemeral: str = "") -> Pod:
    volumes = [
        Volume(name=f"v{index}", persistent_volume_claim=PersistentVolumeClaimSource(claim_name=name))
        for index, name in enumerate(claims)
    ]
    if ephemeral:
        volumes.append(Volume(name=ephemeral, ephemeral=EphemeralVolumeSource()))
    volumes.append(Volume(name="scratch"))
    return Pod(metadata=ObjectMeta(name="p", namespace="shop"), spec=PodSpec(volumes=tuple(volumes)))


def claim(
    name: str = "c",
    *,
    volume: str = "",
    storage_class: str | None = None,
    phase: str = "",
    bound: bool = True,
    going: bool = False,
    namespace: str = "shop",
) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            annotations=annotations,
            deletion_timestamp=THEN if going else None,
        ),
        spec=PersistentVolumeClaimSpec(volume_name=volume, storage_class_name=storage_class),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def in_zones(*zones: str, key: str = ZONE) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(expression(key, "In", *zones),))


def volume(
    name: str = "pv", *terms: NodeSelectorTerm, going: bool = False, **source: Any
) -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name, deletion_timestamp=THEN if going else None),
        spec=PersistentVolumeSpec(node_affinity=affinity, **source),
    )


def storage_class(
    name: str = "gp3",
    *topologies: dict[str, tuple[str, ...]],
    provisioner: str = EBS,
    mode: str = "WaitForFirstConsumer",
) -> StorageClass:
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=tuple(
            TopologySelectorTerm(
                match_label_expressions=tuple(
                    TopologySelectorLabelRequirement(key=key, values=values)
                    for key, values in topology.items()
                )
            )
            for topology in topologies
        ),
    )


def texts(demand: VolumeDemand) -> list[str]:
    return [str(alternative) for alternative in demand.alternatives]


class TestPlaces:
    def test_a_pod_without_claims_asks_nothing(self) -> None:
        demand = volume_demand(pod(), Storage())

        assert demand == VolumeDemand()
        assert demand.alternatives == (NO_REQUIREMENTS,)

    def test_each_term_of_a_bound_volume_is_an_alternative(self) -> None:
        storage = Storage.of([claim(volume="pv")], [volume("pv", in_zones("a"), in_zones("b"))])

        assert texts(volume_demand(pod("c"), storage)) == [f"{ZONE} In [a]", f"{ZONE} In [b]"]

    def test_the_zone_label_of_the_ebs_driver_is_the_zone(self) -> None:
        storage = Storage.of(
            [claim(volume="pv")], [volume("pv", in_zones("a", key="topology.ebs.csi.aws.com/zone"))]
        )

        assert texts(volume_demand(pod("c"), storage)) == [f"{ZONE} In [a]"]

    @pytest.mark.parametrize("affinity", [None, VolumeNodeAffinity()])
    def test_a_volume_without_affinity_is_reached_from_everywhere(
        self, affinity: VolumeNodeAffinity | None
    ) -> None:
        unbound = PersistentVolume(
            metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(node_affinity=affinity)
        )

        demand = volume_demand(pod("c"), Storage.of([claim(volume="pv")], [unbound]))

        assert demand.alternatives == (NO_REQUIREMENTS,)

    @pytest.mark.parametrize("source", [{"local": LocalSource()}, {"host_path": HostPathSource()}])
    def test_the_host_name_of_a_local_volume_is_ignored(self, source: dict[str, Any]) -> None:
        on_host = NodeSelectorTerm(
            match_expressions=(expression("kubernetes.io/hostname", "In", "n1"), expression(ZONE, "In", "a"))
        )
        only_host = NodeSelectorTerm(match_expressions=(expression("kubernetes.io/hostname", "In", "n1"),))
        storage = Storage.of(
            [claim(volume="pv"), claim("d", volume="pw")],
            [volume("pv", on_host, **source), volume("pw", only_host, **source)],
        )

        assert texts(volume_demand(pod("c"), storage)) == [f"{ZONE} In [a]"]
        assert volume_demand(pod("d"), storage).alternatives == (NO_REQUIREMENTS,)

    def test_the_host_name_of_any_other_volume_counts(self) -> None:
        on_host = NodeSelectorTerm(match_expressions=(expression("kubernetes.io/hostname", "In", "n1"),))
        storage = Storage.of([claim(volume="pv")], [volume("pv", on_host, csi=CSIVolumeSource(driver="x"))])

        assert texts(volume_demand(pod("c"), storage)) == ["kubernetes.io/hostname In [n1]"]

    def test_a_volume_to_be_made_may_be_made_where_its_class_allows(self) -> None:
        allowed = storage_class("gp3", {ZONE: ("a", "b"), "tier": ("x",)}, {ZONE: ("c",)}, {})
        storage = Storage.of([claim(storage_class="gp3")], classes=[allowed])

        assert texts(volume_demand(pod("c"), storage)) == [
            f"tier In [x], {ZONE} In [a, b]",
            f"{ZONE} In [c]",
        ]

    def test_a_class_without_topologies_allows_every_place(self) -> None:
        storage = Storage.of([claim(storage_class="gp3")], classes=[storage_class()])

        assert volume_demand(pod("c"), storage).alternatives == (NO_REQUIREMENTS,)

    def test_a_bound_volume_counts_more_than_its_class(self) -> None:
        storage = Storage.of(
            [claim(volume="pv", storage_class="gp3")],
            [volume("pv", in_zones("a"))],
            [storage_class("gp3", {ZONE: ("b",)})],
        )

        assert texts(volume_demand(pod("c"), storage)) == [f"{ZONE} In [a]"]

    def test_several_volumes_give_the_combinations_that_are_possible_each_once(self) -> None:
        storage = Storage.of(
            [claim("c", volume="pv"), claim("d", volume="pw")],
            [
                volume("pv", in_zones("a"), in_zones("b")),
                volume("pw", in_zones("a", "b"), in_zones("b", "c")),
            ],
        )

        assert texts(volume_demand(pod("c", "d"), storage)) == [f"{ZONE} In [a]", f"{ZONE} In [b]"]

    def test_an_ephemeral_volume_is_claimed_by_pod_and_volume_name(self) -> None:
        storage = Storage.of([claim("p-cache", volume="pv")], [volume("pv", in_zones("a"))])

        assert texts(volume_demand(pod(ephemeral="cache"), storage)) == [f"{ZONE} In [a]"]

    def test_demands_are_values(self) -> None:
        storage = Storage.of([claim(volume="pv")], [volume("pv", in_zones("a"))])

        assert hash(volume_demand(pod("c"), storage)) == hash(volume_demand(pod("c"), storage))


BOUND = claim(volume="pv")
BY_CLASS = claim(storage_class="gp3")


class TestRefusals:
    @pytest.mark.parametrize(
        ("storage", "refusal", "text"),
        [
            (Storage(), Refusal.CLAIM_MISSING, "claim shop/c does not exist"),
            (
                Storage.of([claim(namespace="other", volume="pv")], [volume()]),
                Refusal.CLAIM_MISSING,
                "claim shop/c does not exist",
            ),
            (Storage.of([claim(going=True)]), Refusal.CLAIM_DELETING, "claim shop/c is being deleted"),
            (
                Storage.of([claim(volume="pv", phase="Lost")]),
                Refusal.CLAIM_LOST,
                "claim shop/c has lost its volume pv",
            ),
            (
                Storage.of([BOUND]),
                Refusal.VOLUME_MISSING,
                "claim shop/c is bound to volume pv, which does not exist",
            ),
            (
                Storage.of([BOUND], [volume(going=True)]),
                Refusal.VOLUME_DELETING,
                "claim shop/c is bound to volume pv, which is being deleted",
            ),
            (
                Storage.of([claim(volume="pv", bound=False)], [volume()]),
                Refusal.BIND_INCOMPLETE,
                "claim shop/c names volume pv but is not bound to it yet",
            ),
            (
                Storage.of([claim()]),
                Refusal.CLASS_UNNAMED,
                "claim shop/c is not bound and names no storage class",
            ),
            (
                Storage.of([claim(storage_class="")]),
                Refusal.CLASS_UNNAMED,
                "claim shop/c is not bound and names no storage class",
            ),
            (
                Storage.of([BY_CLASS]),
                Refusal.CLASS_MISSING,
                "claim shop/c is not bound and its storage class gp3 does not exist",
            ),
            (
                Storage.of([BY_CLASS], classes=[storage_class(mode="Immediate")]),
                Refusal.IMMEDIATE_UNBOUND,
                "claim shop/c is not bound, though storage class gp3 binds at once",
            ),
            (
                Storage.of([BY_CLASS], classes=[storage_class("gp3", {ZONE: ("a",)}, {"rack": ("1",)})]),
                Refusal.TOPOLOGY_UNSUPPORTED,
                "claim shop/c depends on label rack, which our nodes will not have",
            ),
            (
                Storage.of([BY_CLASS], classes=[storage_class(provisioner="efs.csi.aws.com")]),
                Refusal.DRIVER_UNSUPPORTED,
                "claim shop/c needs driver efs.csi.aws.com, which our nodes do not support",
            ),
            (
                Storage.of([BOUND], [volume(csi=CSIVolumeSource(driver="efs.csi.aws.com"))]),
                Refusal.DRIVER_UNSUPPORTED,
                "claim shop/c needs driver efs.csi.aws.com, which our nodes do not support",
            ),
            (
                Storage.of(
                    [BOUND],
                    [volume("pv", NodeSelectorTerm(match_expressions=(expression("k", "Like", "x"),)))],
                ),
                Refusal.TOPOLOGY_INVALID,
                'the topology of claim shop/c cannot be read: k: there is no operator "Like"',
            ),
            (
                Storage.of([BY_CLASS], classes=[storage_class("gp3", {ZONE: ()})]),
                Refusal.TOPOLOGY_INVALID,
                f"the topology of claim shop/c cannot be read: {ZONE}: operator In needs at least one value",
            ),
            (
                Storage.of([BOUND], [volume("pv", NodeSelectorTerm())]),
                Refusal.UNREACHABLE,
                "the topology of claim shop/c has no term that a node can meet",
            ),
            (
                Storage.of(
                    [BOUND],
                    [
                        volume(
                            "pv",
                            NodeSelectorTerm(
                                match_expressions=(
                                    expression(ZONE, "In", "a"),
                                    expression(ZONE, "NotIn", "a"),
                                )
                            ),
                        )
                    ],
                ),
                Refusal.UNREACHABLE,
                "the topology of claim shop/c has no term that a node can meet",
            ),
            (
                Storage.of(
                    [BOUND],
                    [
                        volume(
                            "pv",
                            NodeSelectorTerm(
                                match_expressions=(expression(ZONE, "In", "a"),),
                                match_fields=(expression("metadata.name", "In", "n1"),),
                            ),
                        )
                    ],
                ),
                Refusal.UNREACHABLE,
                "the topology of claim shop/c has no term that a node can meet",
            ),
        ],
    )
    def test_a_pod_that_waits_for_something_else_than_a_node_is_refused(
        self, storage: Storage, refusal: Refusal, text: str
    ) -> None:
        demand = volume_demand(
            pod("c"),
            storage,
            unsupported_drivers=frozenset({"efs.csi.aws.com"}),
            unsupported_topology_keys=frozenset({"rack"}),
        )

        (problem,) = demand.problems
        assert demand.alternatives == ()
        assert problem.refusal is refusal
        assert str(problem) == f"volume v0: {text}"
        assert problem.hint

    def test_volumes_in_different_zones_leave_no_place(self) -> None:
        storage = Storage.of(
            [claim("c", volume="pv"), claim("d", volume="pw")],
            [volume("pv", in_zones("a")), volume("pw", in_zones("b"))],
        )

        demand = volume_demand(pod("c", "d"), storage)

        assert demand.problems == (VolumeProblem(Refusal.CONTRADICTION, "v1", "shop/d", "pw"),)
        assert demand.alternatives == ()
        assert str(demand.problems[0]) == (
            "volume v1: claim shop/d and the volumes before it share no place where a node can be"
        )

    def test_combinations_beyond_measure_are_refused(self) -> None:
        def along(axis: str) -> StorageClass:
            places: list[dict[str, tuple[str, ...]]] = [{axis: (str(place),)} for place in range(17)]
            return storage_class(axis, *places)

        storage = Storage.of(
            [claim("c", storage_class="x"), claim("d", storage_class="y")], classes=[along("x"), along("y")]
        )

        demand = volume_demand(pod("c", "d"), storage)

        assert [str(problem) for problem in demand.problems] == [
            "volume v1: the volumes up to claim shop/d combine in more than 256 ways"
        ]

    def test_every_claim_at_fault_is_named(self) -> None:
        demand = volume_demand(pod("c", "d", "e"), Storage.of([BOUND, claim("d")], [volume()]))

        assert [(problem.name, problem.refusal) for problem in demand.problems] == [
            ("v1", Refusal.CLASS_UNNAMED),
            ("v2", Refusal.CLAIM_MISSING),
        ]

    def test_every_refusal_has_a_sentence_and_a_hint(self) -> None:
        for refusal in Refusal:
            problem = VolumeProblem(refusal, "v", "n/c")

            assert str(problem)
            assert problem.hint


class TestAttachments:
    @pytest.mark.parametrize(
        ("source", "driver"),
        [
            ({"csi": CSIVolumeSource(driver="x")}, "x"),
            ({"aws_elastic_block_store": AWSElasticBlockStoreSource()}, EBS),
            ({"local": LocalSource()}, None),
        ],
    )
    def test_a_bound_volume_is_attached_by_its_driver(
        self, source: dict[str, Any], driver: str | None
    ) -> None:
        storage = Storage.of([claim(volume="pv")], [volume("pv", **source)])

        expected = Attachments(frozenset({(driver, "shop/c")})) if driver else NO_ATTACHMENTS
        assert volume_demand(pod("c"), storage).attachments == expected
        assert attachments(pod("c"), storage) == expected

    @pytest.mark.parametrize(
        ("provisioner", "driver"),
        [("kubernetes.io/aws-ebs", EBS), (EBS, EBS), ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io")],
    )
    def test_a_volume_to_be_made_is_attached_by_the_driver_of_its_class(
        self, provisioner: str, driver: str
    ) -> None:
        storage = Storage.of([claim(storage_class="gp3")], classes=[storage_class(provisioner=provisioner)])

        assert attachments(pod("c"), storage).counts() == {driver: 1}

    @pytest.mark.parametrize(
        "storage",
        [
            Storage(),
            Storage.of([claim(volume="gone", storage_class="gp3")], classes=[storage_class()]),
            Storage.of([claim(storage_class="gone")]),
        ],
    )
    def test_a_volume_whose_driver_is_unknown_is_not_counted(self, storage: Storage) -> None:
        assert attachments(pod("c"), storage) == NO_ATTACHMENTS

    def test_a_claim_that_two_pods_share_is_attached_once(self) -> None:
        storage = Storage.of(
            [claim("c", storage_class="gp3"), claim("d", storage_class="gp3")], classes=[storage_class()]
        )
        one, both = attachments(pod("c"), storage), attachments(pod("c", "d"), storage)

        assert one.union(both).counts() == {EBS: 2}
        assert one.union(NO_ATTACHMENTS) is one
        assert NO_ATTACHMENTS.union(one) is one

    def test_limits_are_those_that_the_node_states(self) -> None:
        node = CSINode(
            spec=CSINodeSpec(
                drivers=(
                    CSINodeDriver(name=EBS, allocatable=VolumeNodeResources(count=25)),
                    CSINodeDriver(name="none", allocatable=VolumeNodeResources(count=0)),
                    CSINodeDriver(name="open", allocatable=VolumeNodeResources()),
                    CSINodeDriver(name="silent"),
                )
            )
        )

        assert attach_limits(node) == {EBS: 25, "none": 0}
        assert attach_limits(CSINode(spec=CSINodeSpec(drivers=None))) == {}

    def test_the_first_driver_beyond_its_limit_is_named(self) -> None:
        held = Attachments(frozenset({("b", "n/1"), ("b", "n/2"), ("a", "n/3"), ("c", "n/4")}))

        assert held.exceeded({"a": 1, "b": 2}) is None
        exceeded = held.exceeded({"a": 1, "b": 1, "c": 0})
        assert exceeded == AttachLimitExceeded("b", 2, 1)
        assert str(exceeded) == "2 volumes of driver b would be attached, the node can hold 1"
