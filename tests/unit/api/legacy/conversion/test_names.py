# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api.legacy import convert
from karpenter.api.legacy.conversion.names import old_names_in, renamed_annotations, renamed_labels
from tests.unit.api.legacy.builders import converted, journal, machine, node_template, provisioner


def test_only_name_labels_annotations_and_finalizers_are_kept() -> None:
    old = provisioner()
    old["metadata"] |= {
        "uid": "1234",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2023-01-01T00:00:00Z",
        "namespace": "default",
        "managedFields": [],
        "ownerReferences": [],
        "labels": {"app": "x"},
        "annotations": {
            "note": "y",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "karpenter.sh/provisioner-hash": "123",
        },
        "finalizers": ["example.com/keep"],
    }
    old["status"] = {"resources": {"cpu": "3"}}

    (new,) = converted(old)

    assert set(new) == {"apiVersion", "kind", "metadata", "spec"}
    assert new["metadata"] == {
        "name": "default",
        "labels": {"app": "x"},
        "annotations": {"note": "y"},
        "finalizers": ["example.com/keep"],
    }


def test_null_metadata_and_fields_count_as_absent_however_deep() -> None:
    old = provisioner(
        labels=None, taints=None, limits={"resources": None}, kubeletConfiguration={"maxPods": None}
    )
    old["metadata"] |= {"labels": None, "creationTimestamp": None}
    disks = [{"deviceName": "a", "ebs": {"volumeSize": "5Gi", "encrypted": None}}]

    new, node_class = converted(old, node_template(blockDeviceMappings=disks))

    assert new["metadata"] == {"name": "default"}
    assert "limits" not in new["spec"]
    assert node_class["spec"]["blockDeviceMappings"] == [{"deviceName": "a", "ebs": {"volumeSize": "5Gi"}}]
    assert "kubelet" not in node_class["spec"]


def test_the_label_of_the_pool_has_a_new_name() -> None:
    assert renamed_labels({"karpenter.sh/provisioner-name": "a", "b": "c"}, "labels", journal()) == {
        "b": "c",
        "karpenter.sh/nodepool": "a",
    }


def test_a_label_that_v1_lacks_is_dropped_with_a_warning() -> None:
    notes = journal()

    kept = renamed_labels({"karpenter.k8s.aws/instance-ami-id": "ami-1"}, "spec.labels", notes)

    assert kept == {}
    assert [warning.field for warning in notes.warnings] == ["spec.labels[karpenter.k8s.aws/instance-ami-id]"]


def test_a_new_name_that_is_set_already_wins_and_the_loser_is_told() -> None:
    notes = journal()
    labels = {"karpenter.sh/provisioner-name": "old", "karpenter.sh/nodepool": "new"}

    assert renamed_labels(labels, "labels", notes) == {"karpenter.sh/nodepool": "new"}
    assert [warning.text for warning in notes.warnings] == [
        "dropped: karpenter.sh/nodepool is set as well, to 'new'"
    ]


def test_annotations_against_eviction_and_consolidation_become_one() -> None:
    notes = journal()
    both = {"karpenter.sh/do-not-evict": "true", "karpenter.sh/do-not-consolidate": "true"}

    assert renamed_annotations(both, "annotations", notes) == {"karpenter.sh/do-not-disrupt": "true"}
    assert len(notes.warnings) == 2


def test_taints_by_an_old_name_are_renamed() -> None:
    (new,) = converted(provisioner(taints=[{"key": "karpenter.sh/provisioner-name", "effect": "NoSchedule"}]))

    assert new["spec"]["template"]["spec"]["taints"] == [
        {"key": "karpenter.sh/nodepool", "effect": "NoSchedule"}
    ]


def test_a_claim_keeps_its_pool_under_the_new_label() -> None:
    (new,) = converted(machine(pool="team1"))

    assert new["metadata"]["labels"] == {"karpenter.sh/nodepool": "team1"}


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def test_old_names_in_other_kinds_are_found_with_their_place() -> None:
    manifest = pod(
        nodeSelector={"karpenter.sh/provisioner-name": "a"},
        tolerations=[{"key": "x"}, {"key": "karpenter.sh/disruption", "operator": "Exists"}],
    )
    manifest["metadata"]["annotations"] = {"karpenter.sh/do-not-evict": "true"}

    assert list(old_names_in(manifest)) == [
        ("metadata.annotations", "karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"),
        ("spec.nodeSelector", "karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
        ("spec.tolerations[1].key", "karpenter.sh/disruption", "karpenter.sh/disrupted"),
    ]


def test_an_object_that_says_both_names_is_written_for_both_worlds() -> None:
    keys = ["karpenter.sh/provisioner-name", "karpenter.sh/nodepool"]
    manifest = pod(matchExpressions=[{"key": key, "operator": "DoesNotExist"} for key in keys])

    assert list(old_names_in(manifest)) == []


def test_an_old_name_in_another_kind_is_warned_of_and_left_alone() -> None:
    manifest = pod(nodeSelector={"karpenter.sh/provisioner-name": "a"})

    conversion = convert([manifest])

    assert conversion.objects == (manifest,)
    (warning,) = conversion.warnings
    assert str(warning) == (
        "Pod p: spec.nodeSelector: karpenter.sh/provisioner-name is an old name: in v1 it is karpenter.sh/nodepool"
    )


def test_an_old_name_is_found_below_any_nesting() -> None:
    deep: Any = "karpenter.sh/provisioner-name"
    for _ in range(5000):
        deep = [deep]

    ((path, _, _),) = old_names_in({"spec": deep})

    assert path == "spec" + "[0]" * 5000
