# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api import labels


@pytest.mark.parametrize(
    ("key", "restricted"),
    [
        ("team", False),
        ("example.com/team", False),
        ("kubernetes.io/arch", False),
        ("karpenter.sh/capacity-type", False),
        ("karpenter.k8s.aws/instance-family", False),
        ("karpenter.k8s.aws/ec2nodeclass", False),
        ("notkarpenter.sh/team", False),
        ("karpenter.sh", False),
        ("kubernetes.io/hostname", True),
        ("karpenter.sh/initialized", True),
        ("sub.karpenter.sh/team", True),
        ("karpenter.k8s.aws/team", True),
    ],
)
def test_only_labels_of_our_domains_and_the_hostname_are_restricted(key: str, *, restricted: bool) -> None:
    assert labels.is_restricted(key) is restricted


def test_old_label_names_are_read_as_the_stable_ones() -> None:
    assert labels.stable_name("failure-domain.beta.kubernetes.io/zone") == "topology.kubernetes.io/zone"
    assert labels.stable_name("beta.kubernetes.io/instance-type") == "node.kubernetes.io/instance-type"
    assert labels.stable_name("topology.ebs.csi.aws.com/zone") == "topology.kubernetes.io/zone"
    assert labels.stable_name("team") == "team"


def test_names_from_before_v1_have_their_successors() -> None:
    assert labels.current_name("karpenter.sh/provisioner-name") == "karpenter.sh/nodepool"
    assert labels.current_name("karpenter.sh/do-not-evict") == "karpenter.sh/do-not-disrupt"
    assert labels.current_name("karpenter.sh/do-not-consolidate") == "karpenter.sh/do-not-disrupt"
    assert labels.current_name("karpenter.k8s.aws/nodetemplate-hash") == "karpenter.k8s.aws/ec2nodeclass-hash"
    assert labels.current_name("team") == "team"


def test_no_successor_is_itself_an_old_name() -> None:
    for names in (labels.STABLE_NAMES, labels.LEGACY_NAMES):
        assert not set(names) & set(names.values())


def test_the_name_maps_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        labels.LEGACY_NAMES["team"] = "squad"  # type: ignore[index]


def test_a_node_class_label_is_the_group_and_the_lower_case_kind() -> None:
    assert labels.node_class_label("karpenter.k8s.aws", "EC2NodeClass") == labels.EC2NODECLASS


def test_every_well_known_label_may_be_named_by_people() -> None:
    assert not [key for key in labels.WELL_KNOWN if labels.is_restricted(key)]


def test_the_taints_are_those_that_user_data_and_policies_know() -> None:
    disrupted, unregistered = labels.DISRUPTED_TAINT, labels.UNREGISTERED_TAINT

    assert (disrupted.key, disrupted.value, disrupted.effect) == ("karpenter.sh/disrupted", "", "NoSchedule")
    assert (unregistered.key, unregistered.effect) == ("karpenter.sh/unregistered", "NoExecute")
    assert unregistered in labels.EPHEMERAL_TAINTS
