# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.cloud.errors import (
    LAUNCH_FAILED,
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
    SoldOut,
)
from karpenter.cloud.protocol import LAUNCH_ATTEMPT, Machine, launch_attempt, next_attempt
from tests.unit.cloud.aws.builders import claim


def test_a_claim_starts_with_attempt_zero_and_goes_up_by_one() -> None:
    fresh = claim()
    tried = claim(annotations=next_attempt(fresh))

    assert launch_attempt(fresh) == 0
    assert launch_attempt(tried) == 1
    assert next_attempt(tried) == {LAUNCH_ATTEMPT: "2"}


def test_an_attempt_that_is_no_number_counts_as_none() -> None:
    assert launch_attempt(claim(annotations={LAUNCH_ATTEMPT: "-1"})) == 0
    assert launch_attempt(claim(annotations={LAUNCH_ATTEMPT: "soon"})) == 0


def test_a_machine_is_living_until_it_is_on_its_way_out() -> None:
    assert Machine("aws:///z/i-1", state="pending").is_living
    assert Machine("aws:///z/i-1").is_living
    assert not Machine("aws:///z/i-1", state="shutting-down").is_living


def test_every_error_says_what_to_do_next_and_carries_what_a_caller_needs() -> None:
    sold_out = SoldOut("m5.large", "us-west-2a", "spot", "InsufficientInstanceCapacity")

    gone = NodeClaimNotFoundError("aws:///z/i-1")
    dry = InsufficientCapacityError("none", offerings=(sold_out,))
    unready = NodeClassNotReadyError("default", "SubnetsNotFound", "it has found no subnets")
    refused = LaunchError("no")
    pending = LaunchPendingError("wait", retry_after_s=5)

    assert gone.provider_id == "aws:///z/i-1"
    assert dry.offerings == (sold_out,)
    assert (unready.node_class, unready.reason) == ("default", "SubnetsNotFound")
    assert refused.reason == LAUNCH_FAILED
    assert pending.retry_after_s == 5
    assert all(error.hint for error in (gone, dry, unready, pending))
