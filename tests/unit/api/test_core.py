# SPDX-License-Identifier: Apache-2.0
import pickle
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.base import EMPTY, Frozen, to_wire
from karpenter.api.core import (
    CSINode,
    DaemonSet,
    Deployment,
    Event,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodTemplate,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    Taint,
    VolumeAttachment,
    decode,
    decode_list,
)
from karpenter.api.meta import ObjectMeta

KINDS: list[type[Frozen]] = [
    CSINode,
    DaemonSet,
    Deployment,
    Event,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodTemplate,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
]


def wire(value: Any) -> bytes:
    return msgspec.json.encode(value)


def test_a_pod_keeps_every_field_that_decides_where_it_runs() -> None:
    pod = decode(
        wire(
            {
                "metadata": {
                    "name": "cart",
                    "namespace": "shop",
                    "creationTimestamp": "2026-11-02T08:15:27Z",
                },
                "spec": {
                    "nodeSelector": {"type": "karpenter"},
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchExpressions": [
                                            {"key": "team", "operator": "In", "values": ["team1"]}
                                        ]
                                    }
                                ]
                            },
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "weight": 7,
                                    "preference": {
                                        "matchFields": [{"key": "metadata.name", "operator": "In"}]
                                    },
                                }
                            ],
                        },
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "topologyKey": "kubernetes.io/hostname",
                                    "labelSelector": {"matchLabels": {"app": "cart"}},
                                    "namespaceSelector": {},
                                    "matchLabelKeys": ["pod-template-hash"],
                                }
                            ],
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "weight": 3,
                                    "podAffinityTerm": {"topologyKey": "topology.kubernetes.io/zone"},
                                }
                            ],
                        },
                    },
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 2,
                            "topologyKey": "zone",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "minDomains": 3,
                        }
                    ],
                    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
                    "containers": [
                        {
                            "name": "main",
                            "resources": {"requests": {"cpu": "1", "vpc.amazonaws.com/pod-eni": 1}},
                            "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}],
                        }
                    ],
                    "overhead": {"cpu": "250m"},
                    "volumes": [
                        {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
                        {
                            "name": "scratch",
                            "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}},
                        },
                    ],
                    "schedulingGates": [{"name": "wait"}],
                },
                "status": {"resize": "InProgress", "nominatedNodeName": "a"},
            }
        ),
        Pod,
    )

    affinity = pod.spec.affinity

    assert pod.metadata.creation_timestamp == datetime(2026, 11, 2, 8, 15, 27, tzinfo=UTC)
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    assert affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].values == ("team1",)
    assert affinity.node_affinity.preferred[0].preference.match_fields[0].key == "metadata.name"
    assert affinity.pod_anti_affinity is not None
    assert affinity.pod_anti_affinity.required[0].namespace_selector is not None
    assert affinity.pod_anti_affinity.required[0].match_label_keys == ("pod-template-hash",)
    assert (
        affinity.pod_anti_affinity.preferred[0].pod_affinity_term.topology_key
        == "topology.kubernetes.io/zone"
    )
    assert affinity.pod_affinity is None
    assert pod.spec.topology_spread_constraints[0].min_domains == 3
    assert pod.spec.topology_spread_constraints[0].node_affinity_policy == "Honor"
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.spec.containers[0].resources.requests == {"cpu": "1", "vpc.amazonaws.com/pod-eni": 1}
    assert pod.spec.containers[0].ports[0].host_ip == "127.0.0.1"
    assert pod.spec.volumes[1].ephemeral is not None
    assert pod.spec.scheduling_gates[0].name == "wait"
    assert pod.status.nominated_node_name == "a"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_names_itself_and_survives_the_wire_and_pickling(kind: type[Frozen]) -> None:
    empty = kind()

    again = decode(wire(to_wire(empty)), kind)

    assert again == empty
    assert getattr(empty, "kind") == kind.__name__  # noqa: B009 - the base class declares no kind
    assert pickle.loads(pickle.dumps(empty)) == empty  # noqa: S301 - our own bytes


def test_an_object_cannot_be_changed() -> None:
    node = Node(metadata=ObjectMeta(name="a"))

    with pytest.raises(AttributeError):
        node.metadata = ObjectMeta()  # type: ignore[misc]
    with pytest.raises(TypeError, match="read-only"):
        node.metadata.labels["a"] = "b"  # type: ignore[index]


def test_the_shared_empty_mapping_is_one_object_even_after_pickling() -> None:
    meta = pickle.loads(pickle.dumps(ObjectMeta(name="a")))  # noqa: S301 - our own bytes

    assert meta.labels is EMPTY
    assert hash(meta.labels) == hash(EMPTY)


def test_fields_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        Taint("a", "NoSchedule")  # type: ignore[call-arg]


def test_nulls_that_the_api_sends_for_nothing_are_nothing() -> None:
    csi = decode(b'{"metadata":{"creationTimestamp":null},"spec":{"drivers":null}}', CSINode)
    driver = decode(b'{"spec":{"drivers":[{"name":"efs","nodeID":"i-1","topologyKeys":null}]}}', CSINode)
    empty = decode_list(b'{"metadata":{"resourceVersion":"7"},"items":null}', Pod)

    assert csi.spec.drivers is None
    assert driver.spec.drivers is not None
    assert driver.spec.drivers[0].allocatable is None
    assert list(empty) == []
    assert len(empty) == 0


def test_a_list_knows_its_place_and_its_next_page() -> None:
    page = decode_list(
        wire(
            {"metadata": {"resourceVersion": "7", "continue": "abc"}, "items": [{"metadata": {"name": "a"}}]}
        ),
        Node,
    )

    assert page.metadata.continue_ == "abc"
    assert [node.metadata.name for node in page] == ["a"]
    assert len(page) == 1


def test_wire_names_are_the_ones_of_kubernetes() -> None:
    node = Node(metadata=ObjectMeta(name="a"))
    volume = decode(
        b'{"spec":{"awsElasticBlockStore":{"volumeID":"vol-1"},"claimRef":{"name":"c"},"hostPath":{"path":"/x"}}}',
        PersistentVolume,
    )

    named = msgspec.structs.replace(node, spec=decode(b'{"spec":{"providerID":"aws:///a/i-1"}}', Node).spec)

    assert to_wire(named) == {"metadata": {"name": "a"}, "spec": {"providerID": "aws:///a/i-1"}}
    assert volume.spec.aws_elastic_block_store is not None
    assert volume.spec.aws_elastic_block_store.volume_id == "vol-1"


def test_what_is_not_json_or_of_another_shape_is_said_with_its_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.metadata\.name"):
        decode(b'{"metadata":{"name":3}}', Pod)
    with pytest.raises(msgspec.DecodeError):
        decode(b"nonsense", Pod)
