# SPDX-License-Identifier: Apache-2.0
"""The policies that an installation gives the controller: one life of a cluster uses every statement and every action.

All end-to-end tests run under these policies and fail when a call is refused; so nothing is missing from them. Here
nothing may be left over.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import pytest

from tests.component.aws.rights import statements
from tests.e2e.controlplane import ControlPlane
from tests.e2e.product import Product, wait_for
from tests.e2e.scenes import NODE_CLASS, POOL, deployment, look_at_model, running, tell_model

pytestmark = pytest.mark.timeout(400)

_CLUSTER = "sandbox"
# A class that looks for everything that can be looked for, and a pool that takes what was paid for already.
_SPECIAL = (
    NODE_CLASS.replace("name: default", "name: special")
    + """\
  capacityReservationSelectorTerms: [{tags: {team: a}}]
  placementGroupSelector: {name: together}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: special}
spec:
  template:
    metadata: {labels: {type: special}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: special}
"""
)


def test_every_statement_and_every_action_is_used_in_the_life_of_a_cluster(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with Product(control_plane, tmp_path, **{"enable-zonal-shift": "true"}) as product:
        _reserve(product)
        product.apply(f"{POOL}---{NODE_CLASS}---{_SPECIAL}")
        for each in ("default", "special"):
            wait_for(functools.partial(product.ready, "nodepool", each), f"pool {each} is ready", 90)
        _tags_of_a_class_change(product)
        product.apply(deployment("plain", 1) + "---" + deployment("paid", 1, selector="{type: special}"))
        wait_for(lambda: running(product, "plain") + running(product, "paid") == 2, "the pods run", 120)
        [node] = product.get("nodes", "-l", "type=special")
        assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "reserved"
        wait_for(lambda: _are_named(product), "instances are named after their nodes", 60)
        _an_instance_is_taken_away(product)
        _everything_ends(product)

        weighed = look_at_model(product, "rights")

    used = {(each["sid"], each["action"]) for each in weighed["allowed"]}
    given = {(sid, action) for sid, each in statements(_CLUSTER).items() for action in each.actions}
    assert sorted(given - used) == [], "given and never used"
    assert weighed["refused"] == []


def _reserve(product: Product) -> None:
    with contextlib.closing(product.aws()) as ec2:
        ec2.create_placement_group(GroupName="together", Strategy="spread")
        tagged = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "a"}]}]
        ec2.create_capacity_reservation(
            InstanceType="m5.large",
            InstancePlatform="Linux/UNIX",
            AvailabilityZone="us-west-2a",
            InstanceCount=2,
            InstanceMatchCriteria="targeted",
            TagSpecifications=tagged,
        )


def _tags_of_a_class_change(product: Product) -> None:
    """Give a class another tag, which its instance profile gets too."""
    change = '{"spec": {"tags": {"cost-centre": "7"}}}'
    product.plane.kubectl("patch", "ec2nodeclass", "default", "--type=merge", "-p", change)
    with contextlib.closing(product.aws("iam")) as iam:

        def follows() -> bool:
            profiles = iam.list_instance_profiles(PathPrefix="/karpenter/")["InstanceProfiles"]
            tags = [
                iam.list_instance_profile_tags(InstanceProfileName=each["InstanceProfileName"])
                for each in profiles
            ]
            return any(tag["Key"] == "cost-centre" for each in tags for tag in each["Tags"])

        wait_for(follows, "the instance profile has the tag", 60)


def _are_named(product: Product) -> bool:
    tags = [{tag["Key"] for tag in instance["Tags"]} for instance in product.instances()]
    return len(tags) == 2 and all("Name" in each for each in tags)


def _an_instance_is_taken_away(product: Product) -> None:
    """Let AWS say that an instance goes, so that a message is received and removed."""
    [claim] = product.get("nodeclaims", "-l", "karpenter.sh/nodepool=default")
    tell_model(product, "terminate", {"instanceIds": [claim["status"]["providerID"].rpartition("/")[2]]})
    name = claim["metadata"]["name"]
    wait_for(lambda: name not in _names(product, "nodeclaims"), "the claim of the dead instance is gone", 90)


def _everything_ends(product: Product) -> None:
    """Take it all away again: instances, launch templates, instance profiles."""
    product.plane.kubectl("delete", "deployments", "--all", "-n", "default")
    product.plane.kubectl("delete", "nodepools", "--all", "--timeout=90s", timeout_s=100)
    wait_for(lambda: not product.instances(), "no instance is left", 90)
    product.plane.kubectl("delete", "ec2nodeclasses", "--all", "--timeout=60s", timeout_s=70)
    with contextlib.closing(product.aws()) as ec2, contextlib.closing(product.aws("iam")) as iam:
        assert ec2.describe_launch_templates()["LaunchTemplates"] == []
        assert iam.list_instance_profiles(PathPrefix="/karpenter/")["InstanceProfiles"] == []


def _names(product: Product, kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in product.get(kind)}
