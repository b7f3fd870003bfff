# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from karpenter import facts
from karpenter.api import labels
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import CapacityReservation, EC2NodeClass, NetworkInterface
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClassRef, Requirement
from karpenter.api.nodepool import NodeClaimTemplate, NodeClaimTemplateSpec, NodePool, NodePoolSpec
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG
from karpenter.cloud.aws.instances import Instance, read_instance
from karpenter.cloud.aws.placementgroups import FoundPlacementGroup
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, connect, describe_cluster, name_tags
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
    TerminationRefusedError,
)
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import ZONES, claim, node_class, ready
from tests.unit.cloud.aws.fakes import FakeAws, aws_error
from tests.unit.cloud.aws.instancetypes.described import described
from tests.unit.cloud.aws.smallec2 import MemoryJournal

_T = TypeVar("_T")
CLUSTER = {
    "endpoint": "https://eks",
    "certificateAuthority": {"data": "Q0E="},
    "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16", "ipFamily": "ipv4"},
}
OVERRIDE = {
    "InstanceType": "m5.large",
    "SubnetId": "subnet-a",
    "AvailabilityZone": ZONES[0],
    "ImageId": "ami-amd64",
}
FLEET = {"Instances": [{"InstanceIds": ["i-1"], "LaunchTemplateAndOverrides": {"Overrides": OVERRIDE}}]}


def _shown(instance_id: str = "i-1", state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "InstanceId": instance_id,
        "InstanceType": "m5.large",
        "ImageId": "ami-amd64",
        "Placement": {"AvailabilityZone": ZONES[0], "AvailabilityZoneId": "usw2-a"},
        "State": {"Name": state},
        "Tags": [{"Key": labels.NODEPOOL_TAG, "Value": "general"}],
        **more,
    }


def _answer(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"Reservations": [{"Instances": list(instances)}]}


class Stand:
    def __init__(self, **answers: Any) -> None:
        self.clock = FakeClock()
        self.aws = FakeAws(
            {
                "DescribeCluster": {"cluster": CLUSTER},
                "GetProducts": {"PriceList": []},
                "DescribeSpotPriceHistory": {"SpotPriceHistory": []},
                "DescribeInstanceTypes": {"InstanceTypes": [described("m5.large")]},
                "DescribeInstanceTypeOfferings": {
                    "InstanceTypeOfferings": [
                        {"InstanceType": "m5.large", "Location": zone} for zone in ZONES
                    ]
                },
                "DescribeLaunchTemplates": {"LaunchTemplates": []},
                "DescribeInstances": _answer(),
                "DescribeSubnets": {"Subnets": []},
                "CreateLaunchTemplate": {},
                "CreateFleet": FLEET,
                "TerminateInstances": {},
                **answers,
            }
        )

    async def connect(self, **options: Any) -> AwsProvider:
        return await connect(AwsSettings(cluster_name="demo"), aws=self.aws, clock=self.clock, **options)

    async def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.create_task(work)
        await self.clock.advance(3)
        return await task


async def test_it_is_a_cloud_provider() -> None:
    provider: CloudProvider[EC2NodeClass] = await Stand().connect()

    assert provider.name == "aws"
    assert isinstance(provider, AwsProvider)
    assert provider.parts.cluster().endpoint == "https://eks"
    assert {(each.condition_type, each.condition_status) for each in provider.repair_policies()} >= {
        ("Ready", "False"),
        ("Ready", "Unknown"),
        ("AcceleratedHardwareReady", "False"),
    }


async def test_a_claim_becomes_a_machine_with_labels_resources_and_annotations() -> None:
    stand = Stand()
    provider = await stand.connect()
    into = node_class(annotations={labels.EC2NODECLASS_HASH: "h", labels.EC2NODECLASS_HASH_VERSION: "v5"})

    machine = await stand.wait(provider.create(claim(), into))
    await provider.close()

    assert machine.provider_id == f"aws:///{ZONES[0]}/i-1"
    assert machine.image_id == "ami-amd64"
    assert machine.claim_uid == "uid-1"
    assert machine.labels[labels.INSTANCE_CPU] == "2"
    assert machine.labels[labels.ZONE_ID] == "usw2-a"
    assert machine.labels[labels.NODEPOOL] == "general"
    assert machine.labels[labels.EC2NODECLASS] == "default"
    assert machine.labels[labels.INSTANCE_TENANCY] == "default"
    assert labels.PLACEMENT_GROUP_PARTITION not in machine.labels
    assert machine.capacity["cpu"] == 2000
    assert machine.allocatable["cpu"] < 2000
    assert machine.annotations == {
        labels.EC2NODECLASS_HASH: "h",
        labels.EC2NODECLASS_HASH_VERSION: "v5",
        labels.INSTANCE_PROFILE_NAME: "demo_profile",
    }


async def test_an_instance_that_the_claim_has_already_is_adopted_and_others_are_ended() -> None:
    def tagged(instance_id: str, year: int) -> dict[str, Any]:
        tags = [{"Key": CLAIM_UID_TAG, "Value": "uid-1"}]
        return _shown(instance_id, Tags=tags, LaunchTime=datetime(year, 1, 1, tzinfo=UTC))

    stand = Stand(DescribeInstances=_answer(tagged("i-young", 2026), tagged("i-old", 2025)))
    provider = await stand.connect()

    machine = await stand.wait(provider.create(claim(), node_class()))

    assert machine.provider_id.endswith("i-old")
    assert stand.aws.named("TerminateInstances") == [{"InstanceIds": ["i-young"]}]
    assert stand.aws.named("CreateFleet") == []


@pytest.mark.parametrize(
    ("into", "reason"),
    [
        (node_class(status={"conditions": ()}), "NodeClassReadinessUnknown"),
        (
            node_class(
                status={
                    "conditions": (
                        *ready()[:-1],
                        Condition(
                            type="Ready", status="False", reason="SubnetsNotFound", observed_generation=1
                        ),
                    )
                }
            ),
            "SubnetsNotFound",
        ),
        (node_class(generation=2, status={"conditions": ready(1)}), "NodeClassReadinessUnknown"),
        (
            replace(
                node_class(),
                metadata=ObjectMeta(
                    name="x", generation=1, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)
                ),
            ),
            "NodeClassTerminating",
        ),
        (node_class(spec={"tags": {labels.NODECLAIM_TAG: "mine"}}), "TagValidationFailed"),
        (node_class(spec={"tags": {CLAIM_UID_TAG: "mine"}}), "TagValidationFailed"),
    ],
)
async def test_a_node_class_that_is_not_ready_is_not_launched_from(into: EC2NodeClass, reason: str) -> None:
    stand = Stand()
    provider = await stand.connect()
    before = len(stand.aws.calls)

    with pytest.raises(NodeClassNotReadyError) as unready:
        await provider.create(claim(), into)

    assert unready.value.reason == reason
    assert len(stand.aws.calls) == before


async def test_a_claim_without_a_uid_is_refused() -> None:
    provider = await Stand().connect()

    with pytest.raises(LaunchError, match="has no UID"):
        await provider.create(claim(""), node_class())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UnauthorizedOperation", LaunchError),
        ("InvalidParameterValue", LaunchError),
        ("SomethingNew", LaunchError),
        ("InsufficientInstanceCapacity", InsufficientCapacityError),
        ("RequestLimitExceeded", AwsError),
    ],
)
async def test_a_refusal_of_the_whole_request_becomes_what_a_caller_acts_on(code: str, kind: type) -> None:
    stand = Stand(CreateFleet=aws_error(code, "because"))
    provider = await stand.connect()

    with pytest.raises(kind, match="because"):
        await stand.wait(provider.create(claim(), node_class()))


async def test_a_machine_is_got_listed_and_told_gone_with_ec2s_reason() -> None:
    reason = {"Code": "Client.InvalidKMSKey.InvalidState", "Message": "the key is disabled"}
    stand = Stand(
        DescribeInstances=[
            _answer(_shown()),
            _answer(_shown()),
            _answer(_shown(state="terminated", StateReason=reason)),
            _answer(),
        ]
    )
    provider = await stand.connect()
    provider_id = f"aws:///{ZONES[0]}/i-1"

    found = await stand.wait(provider.get(provider_id))
    listed = await provider.list()
    await stand.clock.advance(10)
    with pytest.raises(NodeClaimNotFoundError) as dead:
        await stand.wait(provider.get(provider_id))
    await stand.clock.advance(10)
    with pytest.raises(NodeClaimNotFoundError) as unknown:
        await stand.wait(provider.get(provider_id))

    assert found.labels[labels.INSTANCE_TYPE] == "m5.large"
    assert found.labels[labels.NODEPOOL] == "general"
    assert found.capacity == {}
    assert [each.provider_id for each in listed] == [provider_id]
    assert "the key is disabled" in dead.value.hint
    assert "EC2 says" not in unknown.value.hint


async def test_deleting_sends_one_order_and_none_for_what_is_on_its_way_out() -> None:
    stand = Stand(
        DescribeInstances=[
            _answer(_shown()),
            _answer(_shown(state="shutting-down")),
            _answer(_shown(state="terminated")),
        ]
    )
    provider = await stand.connect()
    provider_id = f"aws:///{ZONES[0]}/i-1"

    await stand.wait(provider.delete(provider_id))
    await stand.wait(provider.delete(provider_id))
    with pytest.raises(NodeClaimNotFoundError):
        await stand.wait(provider.delete(provider_id))

    assert len(stand.aws.named("TerminateInstances")) == 1


async def test_deleting_what_ec2_does_not_list_asks_all_the_same() -> None:
    stand = Stand(TerminateInstances=[{}, aws_error("InvalidInstanceID.NotFound")])
    provider = await stand.connect()
    provider_id = f"aws:///{ZONES[0]}/i-1"

    await stand.wait(provider.delete(provider_id))
    with pytest.raises(NodeClaimNotFoundError):
        await stand.wait(provider.delete(provider_id))


async def test_deleting_what_was_just_launched_waits_until_ec2_knows_it() -> None:
    stand = Stand(TerminateInstances=aws_error("InvalidInstanceID.NotFound"))
    provider = await stand.connect()
    machine = await stand.wait(provider.create(claim(), node_class()))

    with pytest.raises(LaunchPendingError):
        await stand.wait(provider.delete(machine.provider_id))


async def test_a_node_is_compared_with_what_ec2_calls_its_instance_and_that_is_asked_once() -> None:
    named = {"PrivateDnsName": "ip-10-0-0-1.us-west-2.compute.internal"}
    stand = Stand(DescribeInstances=[_answer(), _answer(_shown()), _answer(_shown(**named)), _answer()])
    provider = await stand.connect()
    provider_id = f"aws:///{ZONES[0]}/i-1"
    own = Node(metadata=ObjectMeta(name=named["PrivateDnsName"]))
    evil = Node(metadata=ObjectMeta(name="evil"))

    with pytest.raises(NodeClaimNotFoundError):
        await stand.wait(provider.node_mismatch(provider_id, own, node_class()))
    with pytest.raises(LaunchPendingError):
        await stand.wait(provider.node_mismatch(provider_id, own, node_class()))
    await stand.clock.advance(10)

    assert await stand.wait(provider.node_mismatch(provider_id, own, node_class())) == ""
    await stand.clock.advance(10)
    assert "not evil" in await stand.wait(provider.node_mismatch(provider_id, evil, node_class()))
    assert len(stand.aws.named("DescribeInstances")) == 3


async def test_a_provider_id_of_another_cloud_names_no_instance_and_nothing_is_asked_or_ended() -> None:
    stand = Stand()
    provider = await stand.connect()
    before = len(stand.aws.calls)

    for odd in (provider.get("gce:///zone/vm"), provider.delete("Provider:///AZ/i-01234567890123456")):
        with pytest.raises(NodeClaimNotFoundError) as gone:
            await odd
        assert gone.value.has_ended
        assert "names no EC2 instance" in gone.value.hint

    assert len(stand.aws.calls) == before


def _pool(*requirements: Requirement) -> NodePool:
    reference = NodeClassRef(group=labels.AWS_GROUP, kind="EC2NodeClass", name="default")
    template = NodeClaimTemplate(
        spec=NodeClaimTemplateSpec(requirements=requirements, node_class_ref=reference)
    )
    return NodePool(spec=NodePoolSpec(template=template))


async def test_a_pool_sees_the_types_of_its_class_and_the_tenancies_that_it_asks_for() -> None:
    provider = await Stand().connect()
    dedicated = Requirement(key=labels.INSTANCE_TENANCY, operator="In", values=("dedicated",))

    plain = await provider.instance_types(_pool(), node_class())
    asked = await provider.instance_types(_pool(dedicated), node_class())

    def tenancies(types: Any) -> set[str]:
        return {each.labels[labels.INSTANCE_TENANCY] for one in types for each in one.offerings}

    assert tenancies(plain) == {"default"}
    assert tenancies(asked) == {"dedicated"}


async def test_a_pool_that_is_silent_offers_dedicated_hardware_while_a_pod_names_tenancy() -> None:
    naming = True
    provider = await Stand().connect(pods_name_tenancy=lambda: naming)
    shared = Requirement(key=labels.INSTANCE_TENANCY, operator="In", values=("default",))

    async def tenancies(*requirements: Requirement) -> set[str]:
        types = await provider.instance_types(_pool(*requirements), node_class())
        return {each.labels[labels.INSTANCE_TENANCY] for one in types for each in one.offerings}

    asked, bound = await tenancies(), await tenancies(shared)
    naming = False

    assert asked == {"default", "dedicated"}
    assert bound == {"default"}
    assert await tenancies() == {"default"}


async def test_a_claim_for_dedicated_hardware_becomes_a_machine_that_says_so() -> None:
    stand = Stand()
    provider = await stand.connect()
    wanted = claim(requirements={labels.INSTANCE_TENANCY: ("dedicated",)})

    machine = await stand.wait(provider.create(wanted, node_class()))

    (template,) = stand.aws.named("CreateLaunchTemplate")
    assert template["LaunchTemplateData"]["Placement"] == {"Tenancy": "dedicated"}
    assert machine.labels[labels.INSTANCE_TENANCY] == "dedicated"


@pytest.mark.parametrize(("asked", "label"), [(("3", "2"), "2"), ((), "")])
async def test_a_machine_in_a_partition_group_says_its_partition_or_that_it_is_not_known_yet(
    asked: tuple[str, ...], label: str
) -> None:
    stand = Stand()
    group = FoundPlacementGroup("pg-1", "racks", "partition", 3)
    provider = await stand.connect(group_of=lambda _: group)
    wanted = claim(requirements={labels.PLACEMENT_GROUP_PARTITION: asked} if asked else {})

    machine = await stand.wait(provider.create(wanted, node_class()))

    assert machine.labels[labels.PLACEMENT_GROUP_ID] == "pg-1"
    assert machine.labels[labels.PLACEMENT_GROUP_PARTITION] == label


async def test_drift_is_asked_for_with_the_instance_as_it_is() -> None:
    async def drift(_claim: NodeClaim, _class: EC2NodeClass, instance: Instance) -> str:
        return f"AMIDrift {instance.image_id}"

    stand = Stand(DescribeInstances=[_answer(_shown()), _answer()])
    provider = await stand.connect(drift=drift)
    launched = claim(provider_id=f"aws:///{ZONES[0]}/i-1")

    reason = await stand.wait(provider.drift_reason(launched, node_class()))
    await stand.clock.advance(10)
    with pytest.raises(NodeClaimNotFoundError):
        await stand.wait(provider.drift_reason(launched, node_class()))

    assert reason == "AMIDrift ami-amd64"


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (_shown(), ""),
        (_shown(ImageId="ami-last-year"), "AMIDrift"),
        (_shown(InstanceType="m1.old", ImageId="ami-last-year"), ""),
    ],
    ids=["as the class has it", "another image", "a type that nobody knows"],
)
async def test_an_instance_is_compared_with_what_its_class_has_found(
    shown: dict[str, Any], reason: str
) -> None:
    stand = Stand(DescribeInstances=_answer(shown))
    provider = await stand.connect()
    launched = claim(provider_id=f"aws:///{ZONES[0]}/i-1")

    assert await stand.wait(provider.drift_reason(launched, node_class())) == reason


async def test_an_instance_that_left_its_reservation_is_read_again_past_every_cache() -> None:
    reserved = _shown(CapacityReservationId="cr-1", InstanceLifecycle="capacity-block")
    stand = Stand(DescribeInstances=_answer(reserved))
    provider = await stand.connect()
    launched = claim(provider_id=f"aws:///{ZONES[0]}/i-1")
    before = len(stand.aws.named("DescribeInstances"))

    reason = await stand.wait(provider.drift_reason(launched, node_class()))

    assert reason == "CapacityReservationDrift"
    assert len(stand.aws.named("DescribeInstances")) == before + 2


async def test_tags_are_written_and_name_node_claim_and_cluster() -> None:
    stand = Stand(CreateTags={}, DescribeInstances=_answer(_shown(Tags=[])))
    provider = await stand.connect()
    launched = claim(provider_id=f"aws:///{ZONES[0]}/i-1")

    written = await stand.wait(provider.tag(launched.status.provider_id, name_tags(launched, "demo")))

    (call,) = stand.aws.named("CreateTags")
    assert written
    assert {each["Key"] for each in call["Tags"]} == {
        labels.NAME_TAG,
        labels.NODECLAIM_TAG,
        labels.EKS_CLUSTER_NAME_TAG,
    }


async def test_tags_that_are_there_are_kept_and_nothing_is_sent_where_none_is_missing() -> None:
    theirs = [{"Key": labels.NAME_TAG, "Value": "web"}, {"Key": labels.EKS_CLUSTER_NAME_TAG, "Value": "demo"}]
    ours = [*theirs, {"Key": labels.NODECLAIM_TAG, "Value": "claim-uid-1"}]
    stand = Stand(
        CreateTags={}, DescribeInstances=[_answer(_shown(Tags=theirs)), _answer(_shown(Tags=ours)), _answer()]
    )
    provider = await stand.connect()
    launched = claim(provider_id=f"aws:///{ZONES[0]}/i-1")
    wanted = name_tags(launched, "demo")

    first = await stand.wait(provider.tag(launched.status.provider_id, wanted))
    second = await stand.wait(provider.tag(launched.status.provider_id, wanted))
    with pytest.raises(NodeClaimNotFoundError):
        await stand.wait(provider.tag(launched.status.provider_id, wanted))

    (call,) = stand.aws.named("CreateTags")
    assert [each["Key"] for each in call["Tags"]] == [labels.NODECLAIM_TAG]
    assert (first, second) == (True, False)


_DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/karpenter/x is not"
    " authorized to perform: ec2:TerminateInstances on resource: arn:aws:ec2:us-west-2:1:instance/i-1 because"
    " no identity-based policy allows the ec2:TerminateInstances action"
)


@pytest.mark.parametrize(
    ("code", "text", "resource", "hint"),
    [
        (
            "UnauthorizedOperation",
            _DENIED,
            "arn:aws:ec2:us-west-2:1:instance/i-1",
            "allow ec2:TerminateInstances on arn:aws:ec2:us-west-2:1:instance/i-1 in the policy of arn:aws:sts",
        ),
        ("OperationNotPermitted", "may not be terminated", "i-1", "--no-disable-api-termination"),
    ],
)
async def test_a_termination_that_ec2_refuses_names_action_and_resource(
    code: str, text: str, resource: str, hint: str
) -> None:
    stand = Stand(
        DescribeInstances=_answer(_shown()),
        TerminateInstances=aws_error(code, text, operation="TerminateInstances"),
    )
    provider = await stand.connect()

    with pytest.raises(TerminationRefusedError) as refused:
        await stand.wait(provider.delete(f"aws:///{ZONES[0]}/i-1"))

    error = refused.value
    assert (error.action, error.resource, error.code) == ("ec2:TerminateInstances", resource, code)
    assert hint in error.hint
    assert f"ec2:TerminateInstances on {resource} is refused ({code})" in error.message


async def test_a_termination_that_ec2_is_too_busy_for_is_no_refusal() -> None:
    stand = Stand(
        DescribeInstances=_answer(_shown()), TerminateInstances=aws_error("InternalError", status=500)
    )
    provider = await stand.connect()

    with pytest.raises(AwsError):
        await stand.wait(provider.delete(f"aws:///{ZONES[0]}/i-1"))


async def test_a_machine_too_many_that_ec2_will_not_end_does_not_stop_the_claim() -> None:
    def tagged(instance_id: str, year: int) -> dict[str, Any]:
        tags = [{"Key": CLAIM_UID_TAG, "Value": "uid-1"}]
        return _shown(instance_id, Tags=tags, LaunchTime=datetime(year, 1, 1, tzinfo=UTC))

    warnings: list[str] = []
    stand = Stand(
        DescribeInstances=_answer(tagged("i-young", 2026), tagged("i-old", 2025)),
        TerminateInstances=aws_error("UnauthorizedOperation"),
    )
    provider = await stand.connect(warn=warnings.append)

    machine = await stand.wait(provider.create(claim(), node_class()))

    assert machine.provider_id.endswith("i-old")
    assert "i-young, which no claim needs, is not terminated" in warnings[0]


async def test_whose_a_machine_may_be_is_told() -> None:
    provider = await Stand().connect()

    owners = provider.possible_claims(Machine("aws:///z/i-1", tags={CLAIM_UID_TAG: "u"}))

    assert owners == {"u"}


async def test_a_reserved_machine_carries_the_labels_of_its_reservation() -> None:
    provider = await Stand().connect(reservation_count=lambda _: 3)
    reservation = CapacityReservation(
        id="cr-1",
        availability_zone=ZONES[0],
        instance_type="m5.large",
        owner_id="111122223333",
        instance_match_criteria="targeted",
    )
    instance = read_instance(
        _shown(
            CapacityReservationId="cr-1",
            CapacityReservationSpecification={"CapacityReservationPreference": "capacity-reservations-only"},
            Placement={
                "AvailabilityZone": ZONES[0],
                "Tenancy": "dedicated",
                "PartitionNumber": 2,
                "GroupId": "pg-1",
            },
        )
    )

    machine = provider.machine(instance, node_class(status={"capacity_reservations": (reservation,)}))

    assert machine.labels[labels.CAPACITY_RESERVATION_ID] == "cr-1"
    assert machine.labels[labels.CAPACITY_RESERVATION_TYPE] == "default"
    assert machine.labels[labels.INSTANCE_TENANCY] == "dedicated"
    assert machine.labels[labels.PLACEMENT_GROUP_PARTITION] == "2"


async def test_a_type_that_is_not_known_any_more_gives_what_the_instance_tells() -> None:
    provider = await Stand().connect()

    machine = provider.machine(read_instance(_shown(InstanceType="m1.old")), node_class())

    assert machine.labels[labels.INSTANCE_TYPE] == "m1.old"
    assert machine.capacity == {}


async def test_efa_devices_are_shown_only_where_somebody_asked_for_them() -> None:
    efa = described("m5.large")
    efa["NetworkInfo"] = {**efa["NetworkInfo"], "EfaSupported": True, "EfaInfo": {"MaximumEfaInterfaces": 4}}
    provider = await Stand(DescribeInstanceTypes={"InstanceTypes": [efa]}).connect()
    instance = read_instance(_shown())
    nic = NetworkInterface(network_card_index=0, device_index=0, interface_type="interface")

    plain = provider.machine(instance, node_class(), claim())
    asked = provider.machine(instance, node_class(), claim(requests={labels.EFA: "1"}))
    configured = provider.machine(instance, node_class(spec={"network_interfaces": (nic,)}), claim())

    assert labels.EFA not in plain.capacity
    assert asked.capacity[labels.EFA] == 4
    assert plain.capacity.keys() >= {"cpu", "memory"}
    assert labels.EFA not in configured.capacity


async def test_an_unknown_hook_is_a_typing_mistake() -> None:
    with pytest.raises(TypeError, match="drifts"):
        await Stand().connect(drifts=None)


async def test_what_the_settings_say_of_the_cluster_wins_over_eks() -> None:
    stand = Stand()
    told = AwsSettings(cluster_name="demo", cluster_endpoint="https://mine", cluster_dns_ip="10.0.0.10")

    cluster = await describe_cluster(stand.aws, told, FakeClock())

    assert (cluster.endpoint, cluster.ca_bundle) == ("https://mine", "Q0E=")
    assert (cluster.service_cidr, cluster.dns_ip) == ("10.100.0.0/16", "10.0.0.10")


async def test_an_ipv6_cluster_has_ipv6_services() -> None:
    network = {"serviceIpv6Cidr": "fd00::/108", "ipFamily": "ipv6"}
    aws = FakeAws({"DescribeCluster": {"cluster": {"kubernetesNetworkConfig": network}}})

    cluster = await describe_cluster(aws, AwsSettings(cluster_name="demo"), FakeClock())

    assert (cluster.ip_family, cluster.service_cidr) == ("ipv6", "fd00::/108")


async def test_a_cluster_that_eks_does_not_know_needs_an_endpoint_in_the_settings() -> None:
    aws = FakeAws({"DescribeCluster": aws_error("ResourceNotFoundException")})

    with pytest.raises(AwsError):
        await describe_cluster(aws, AwsSettings(cluster_name="demo"), FakeClock())
    own = await describe_cluster(
        aws, AwsSettings(cluster_name="demo", cluster_endpoint="https://mine"), FakeClock()
    )

    assert own.endpoint == "https://mine"


async def test_an_eks_that_does_not_answer_is_waited_for_briefly_where_the_endpoint_is_configured() -> None:
    clock = FakeClock()
    aws = FakeAws({"DescribeCluster": lambda **_: asyncio.Event().wait()})
    settings = AwsSettings(cluster_name="demo", cluster_endpoint="https://mine")

    asked = asyncio.create_task(describe_cluster(aws, settings, clock))
    await clock.advance(5)

    assert (await asked).endpoint == "https://mine"


async def test_a_price_list_that_does_not_answer_delays_the_start_by_seconds_only() -> None:
    stand = Stand(GetProducts=lambda **_: asyncio.Event().wait())

    connected = asyncio.create_task(stand.connect())
    await stand.clock.advance(5)
    provider = await connected

    assert provider.prices.on_demand("m5.large") == facts.on_demand_prices("us-west-2")["m5.large"]
    assert provider.prices.age_s(labels.ON_DEMAND) is None


@pytest.mark.parametrize("share", [1.0, 1.2, -0.1])
async def test_a_memory_overhead_that_leaves_nothing_is_refused_at_start(share: float) -> None:
    stand = Stand()

    with pytest.raises(ValueError, match=r"vm_memory_overhead_percent=.*from 0 to below 1"):
        await connect(
            AwsSettings(cluster_name="demo", vm_memory_overhead_percent=share),
            aws=stand.aws,
            clock=stand.clock,
        )


def _born(uid: str, after: datetime) -> NodeClaim:
    made = claim(uid)
    return replace(made, metadata=replace(made.metadata, creation_timestamp=after))


async def test_a_new_claim_is_launched_while_instances_cannot_be_described() -> None:
    warnings: list[str] = []
    another = {"Instances": [{**FLEET["Instances"][0], "InstanceIds": ["i-2"]}]}
    stand = Stand(DescribeInstances=aws_error("InternalError", status=500), CreateFleet=[FLEET, another])
    provider = await stand.connect(journal=MemoryJournal(), warn=warnings.append)
    await provider.launcher.knows(claim())  # reads the journal
    old = _born("uid-old", stand.clock.now() - timedelta(hours=1))
    new = _born("uid-new", stand.clock.now() + timedelta(minutes=2))

    first = await stand.wait(provider.create(new, node_class()))
    told = list(warnings)
    second = await stand.wait(provider.create(old, node_class()))
    await provider.close()

    assert [first.provider_id[-3:], second.provider_id[-3:]] == ["i-1", "i-2"]
    assert told == []
    assert "instances of NodeClaim claim-uid-old cannot be looked for, the journal decides" in warnings[0]


async def test_without_a_journal_a_claim_waits_until_instances_can_be_described() -> None:
    stand = Stand(DescribeInstances=aws_error("InternalError", status=500))
    provider = await stand.connect()

    with pytest.raises(AwsError):
        await stand.wait(provider.create(claim(), node_class()))

    assert stand.aws.named("CreateFleet") == []


async def test_an_instance_is_ended_while_instances_cannot_be_described() -> None:
    stand = Stand(DescribeInstances=aws_error("InternalError", status=500))
    provider = await stand.connect()

    await stand.wait(provider.delete(f"aws:///{ZONES[0]}/i-1"))

    assert stand.aws.named("TerminateInstances") == [{"InstanceIds": ["i-1"]}]
