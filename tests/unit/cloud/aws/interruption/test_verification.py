# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.instances import Instances
from karpenter.cloud.aws.interruption import Interruption, InterruptionKind, Misfit, Verdict, Verifier
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import claim
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

SPOT = {labels.CAPACITY_TYPE: labels.SPOT}
ON_DEMAND = {labels.CAPACITY_TYPE: labels.ON_DEMAND}
IN_RESERVATION = {labels.CAPACITY_TYPE: labels.RESERVED, labels.CAPACITY_RESERVATION_ID: "cr-1"}
Kind = InterruptionKind


def described(state: str = "running", **more: Any) -> dict[str, Any]:
    instance = {"InstanceId": "i-1", "State": {"Name": state}, **more}
    return {"Reservations": [{"Instances": [instance]}]}


def statuses(*events: Mapping[str, Any], instance_id: str = "i-1") -> dict[str, Any]:
    return {"InstanceStatuses": [{"InstanceId": instance_id, "Events": list(events)}]}


async def verdict(
    interruption: Interruption,
    answers: Mapping[str, Any] | None = None,
    **claims: NodeClaim,
) -> Verdict:
    """Return the verdict on an interruption; the NodeClaim of instance ``i-1`` is given as ``i_1``."""
    clock = FakeClock()
    aws = FakeAws(answers or {})
    by_instance = {name.replace("_", "-"): (each,) for name, each in claims.items()}
    verifier = Verifier(
        aws,
        clock,
        instances=Instances(aws, clock, cluster_name="demo"),
        claims_of=lambda instance_id: by_instance.get(instance_id, ()),
    )
    asked = asyncio.create_task(verifier.verify(interruption))
    await clock.advance(2)
    return await asked


@pytest.mark.parametrize("kind", [Kind.SPOT_INTERRUPTED, Kind.REBALANCE_RECOMMENDATION])
async def test_a_spot_notice_fits_a_spot_node_and_no_other_and_ec2_is_not_asked(kind: Kind) -> None:
    notice = Interruption(kind, ("i-1", "i-2", "i-3"))

    found = await verdict(
        notice,
        i_1=claim(node_labels=SPOT),
        i_2=claim(node_labels=ON_DEMAND),
        i_3=claim(node_labels=IN_RESERVATION),
    )

    assert found == Verdict(("i-1",), {"i-2": Misfit.NOT_SPOT, "i-3": Misfit.NOT_SPOT})


@pytest.mark.parametrize(
    ("answer", "fits"),
    [(described(InstanceLifecycle="spot"), ("i-1",)), (described(), ()), ({"Reservations": []}, ())],
)
async def test_for_a_claim_that_does_not_say_its_capacity_type_ec2_is_asked(
    answer: dict[str, Any], fits: tuple[str, ...]
) -> None:
    notice = Interruption(Kind.SPOT_INTERRUPTED, ("i-1",))

    assert (await verdict(notice, {"DescribeInstances": answer}, i_1=claim())).fits == fits


@pytest.mark.parametrize("kind", [Kind.INSTANCE_STOPPED, Kind.INSTANCE_TERMINATED])
@pytest.mark.parametrize(
    ("answer", "misfit"),
    [
        (described("running"), Misfit.INSTANCE_RUNNING),
        (described("pending"), Misfit.INSTANCE_RUNNING),
        (described("stopping"), None),
        (described("stopped"), None),
        (described("shutting-down"), None),
        (described("terminated"), None),
        ({"Reservations": []}, None),
    ],
)
async def test_a_change_of_state_fits_an_instance_that_ec2_does_not_call_alive(
    kind: Kind, answer: dict[str, Any], misfit: Misfit | None
) -> None:
    found = await verdict(
        Interruption(kind, ("i-1",)), {"DescribeInstances": answer}, i_1=claim(node_labels=ON_DEMAND)
    )

    assert found.misfits.get("i-1") is misfit
    assert found.fits == (() if misfit else ("i-1",))


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        (statuses({"Code": "instance-stop", "Description": "degraded hardware"}), ("i-1",)),
        (statuses({"Code": "instance-stop", "Description": "[Completed] degraded hardware"}), ()),
        (statuses({"Code": "instance-stop", "Description": "x"}, instance_id="i-2"), ()),
        ({"InstanceStatuses": []}, ()),
    ],
)
async def test_a_scheduled_change_fits_an_instance_that_ec2_has_an_event_for(
    answer: dict[str, Any], fits: tuple[str, ...]
) -> None:
    notice = Interruption(Kind.SCHEDULED_CHANGE, ("i-1",))

    found = await verdict(notice, {"DescribeInstanceStatus": answer}, i_1=claim(node_labels=ON_DEMAND))

    assert found.fits == fits
    assert found.misfits == ({} if fits else {"i-1": Misfit.NO_SCHEDULED_EVENT})


@pytest.mark.parametrize(
    ("node_labels", "reservation", "fits"),
    [
        (IN_RESERVATION, "cr-1", ("i-1",)),
        (IN_RESERVATION, "cr-2", ()),
        (IN_RESERVATION, "", ()),
        (ON_DEMAND, "cr-1", ()),
        (ON_DEMAND, "", ()),
    ],
)
async def test_the_end_of_a_reservation_fits_the_nodes_in_it(
    node_labels: dict[str, str], reservation: str, fits: tuple[str, ...]
) -> None:
    notice = Interruption(Kind.CAPACITY_RESERVATION_INTERRUPTED, ("i-1",), reservation_id=reservation)

    found = await verdict(notice, i_1=claim(node_labels=node_labels))

    assert found.fits == fits
    assert found.misfits == ({} if fits else {"i-1": Misfit.OTHER_RESERVATION})


async def test_instances_of_others_are_left_out_and_ec2_is_not_asked_about_them() -> None:
    assert await verdict(Interruption(Kind.INSTANCE_TERMINATED, ("i-9",))) == Verdict(())


async def test_ec2_is_not_asked_about_a_claim_that_is_deleted_already() -> None:
    base = claim(node_labels=ON_DEMAND)
    leaving = msgspec.structs.replace(
        base,
        metadata=msgspec.structs.replace(base.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)),
    )

    assert (await verdict(Interruption(Kind.INSTANCE_TERMINATED, ("i-1",)), i_1=leaving)).fits == ("i-1",)


async def test_a_refusal_of_ec2_goes_to_the_caller_so_that_the_message_comes_back() -> None:
    answers = {"DescribeInstances": aws_error("UnauthorizedOperation")}

    with pytest.raises(AwsError):
        await verdict(
            Interruption(Kind.INSTANCE_STOPPED, ("i-1",)), answers, i_1=claim(node_labels=ON_DEMAND)
        )


def test_only_what_the_claim_itself_says_is_final() -> None:
    assert {each for each in Misfit if each.is_final} == {Misfit.NOT_SPOT, Misfit.OTHER_RESERVATION}
