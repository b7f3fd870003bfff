# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.cloud.aws.api import AwsUnreachableError
from karpenter.cloud.aws.discovery import (
    Account,
    AccountUnknownError,
    Notice,
    Owned,
    describe,
    filter_of,
    foreign_notices,
    tag_filters,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws

UNREACHABLE = AwsUnreachableError("sts", "GetCallerIdentity", "no route")


def notices(*found: Owned, account_id: str = "111111111111") -> tuple[Notice, ...]:
    return foreign_notices(
        found,
        field="spec.subnetSelectorTerms",
        noun="subnet",
        account_id=account_id,
        cluster_name="demo",
    )


def test_a_star_asks_only_for_the_key() -> None:
    filters = tag_filters({"team": "a", "Name": "*"})

    assert filters == [
        {"Name": "tag-key", "Values": ["Name"]},
        {"Name": "tag:team", "Values": ["a"]},
    ]


async def test_more_values_than_a_filter_takes_become_several_calls() -> None:
    aws = FakeAws({"DescribeSubnets": {"Subnets": [{"SubnetId": "subnet-1"}]}})

    found = await describe(
        aws, "DescribeSubnets", "Subnets", [[filter_of("subnet-id", [f"subnet-{n}" for n in range(450)])]]
    )

    assert [len(call["Filters"][0]["Values"]) for call in aws.named("DescribeSubnets")] == [200, 200, 50]
    assert len(found) == 3


async def test_our_account_is_asked_for_once() -> None:
    aws = FakeAws({"GetCallerIdentity": {"Account": "111111111111"}})
    account = Account(aws, FakeClock(), cluster_name="demo")

    assert [await account.id(), await account.id()] == ["111111111111"] * 2
    assert len(aws.calls) == 1


async def test_without_sts_the_role_of_the_environment_names_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::222222222222:role/karpenter")
    aws = FakeAws({"GetCallerIdentity": UNREACHABLE})

    assert await Account(aws, FakeClock(), cluster_name="demo").id() == "222222222222"


async def test_without_sts_and_role_the_cluster_names_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ROLE_ARN", raising=False)
    arn = "arn:aws:eks:us-west-2:333333333333:cluster/demo"
    aws = FakeAws({"GetCallerIdentity": UNREACHABLE, "DescribeCluster": {"cluster": {"arn": arn}}})

    assert await Account(aws, FakeClock(), cluster_name="demo").id() == "333333333333"
    assert aws.named("DescribeCluster") == [{"name": "demo"}]


async def test_an_sts_that_never_answers_is_waited_for_a_few_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::222222222222:role/karpenter")
    clock = FakeClock()
    aws = FakeAws({"GetCallerIdentity": lambda: asyncio.Event().wait()})

    asked = asyncio.create_task(Account(aws, clock, cluster_name="demo").id())
    await clock.advance(5)

    assert await asked == "222222222222"


@pytest.mark.parametrize("cluster", [{"cluster": {}}, {"cluster": {"arn": "demo"}}, UNREACHABLE])
async def test_an_account_that_nothing_names_is_asked_for_again_after_minutes(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ROLE_ARN", raising=False)
    clock = FakeClock()
    aws = FakeAws(
        {"GetCallerIdentity": [UNREACHABLE, {"Account": "111111111111"}], "DescribeCluster": cluster}
    )
    account = Account(aws, clock, cluster_name="demo")

    for _ in range(2):
        with pytest.raises(AccountUnknownError, match="no route") as unknown:
            await account.id()

    assert len(aws.named("GetCallerIdentity")) == 1
    assert "VPC endpoint for sts" in unknown.value.hint
    await clock.advance(300)
    assert await account.id() == "111111111111"


def test_what_is_ours_or_of_unknown_owner_needs_no_notice() -> None:
    ours = Owned("subnet-1", "111111111111", {"kubernetes.io/cluster/demo": "owned"})
    unknown = Owned("subnet-2", "", {"kubernetes.io/cluster/other": "shared"})
    shared = Owned(
        "subnet-3", "", {"kubernetes.io/cluster/demo": "owned", "kubernetes.io/cluster/b": "owned"}
    )

    assert notices(ours, unknown, shared) == ()


def test_a_subnet_of_another_account_is_told_with_its_owner_and_the_field() -> None:
    (notice,) = notices(Owned("subnet-1", "222222222222", {}))

    assert notice.reason == "ForeignOwner"
    assert str(notice).startswith(
        "spec.subnetSelectorTerms: subnet subnet-1 belongs to account 222222222222, not to ours (111111111111)"
    )
    assert notice.hint in str(notice)


def test_a_subnet_of_another_cluster_is_told_by_the_clusters_name() -> None:
    (notice,) = notices(Owned("subnet-1", "", {"kubernetes.io/cluster/other": "owned"}))

    assert notice.reason == "ForeignCluster"
    assert "owned by cluster other, not demo" in notice.message


def test_without_our_own_account_owners_are_not_compared() -> None:
    assert notices(Owned("subnet-1", "222222222222", {}), account_id="") == ()


def test_a_notice_without_hint_is_only_the_sentence() -> None:
    assert str(Notice("Odd", "spec.role", "is odd")) == "spec.role: is odd"
