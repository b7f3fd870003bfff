# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from karpenter.api import labels
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, LAUNCH_TAG, Launched, launch_token
from karpenter.cloud.aws.journal import FileJournal, JournalError, LaunchIntent, problem_of, subnet_zones

REQUEST = {"LaunchTemplateConfigs": [{"Overrides": [{"SubnetId": "s", "AvailabilityZone": "z"}]}]}
INTENT = LaunchIntent(
    token="t-1",
    members=(("u1", 0), ("u2", 3)),
    request=REQUEST,
    capacity_type="spot",
    reservations={},
    written_at=datetime(2026, 1, 1, tzinfo=UTC),
)


async def test_an_intent_survives_and_its_answer_takes_its_place(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "new")
    settled = replace(INTENT, assigned={"u1": Launched("i-1", "m5.large", "z", "spot")})

    empty = await journal.load()
    await journal.put(INTENT)
    first = await FileJournal(tmp_path / "new").load()
    await journal.put(settled)

    assert list(empty) == []
    assert first == [INTENT]
    assert await journal.load() == [settled]


async def test_the_oldest_comes_first_and_what_was_dropped_is_gone(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    older = replace(INTENT, token="t-2", written_at=datetime(2025, 1, 1, tzinfo=UTC))
    await journal.put(INTENT)
    await journal.put(older)

    listed = await journal.load()
    await journal.drop(["t-1", "unknown"])

    assert [each.token for each in listed] == ["t-2", "t-1"]
    assert [each.token for each in await journal.load()] == ["t-2"]


async def test_a_half_written_draft_is_no_intent(tmp_path: Path) -> None:
    (tmp_path / "t-9.draft").write_text("{")

    assert list(await FileJournal(tmp_path).load()) == []


def _files(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def test_an_intent_that_cannot_be_read_is_set_aside_and_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    journal = FileJournal(tmp_path, lambda name, _: told.append(name))
    await journal.put(INTENT)
    (tmp_path / "t-0.json").write_text("{")

    found = await journal.load()
    await journal.set_aside("t-1", "it is forged")

    assert found == [INTENT]
    assert list(await journal.load()) == []
    assert told == ["t-0.json", "t-1.json"]
    assert _files(tmp_path) == ["t-0.unreadable", "t-1.unreadable"]


async def test_a_journal_that_cannot_be_read_or_written_stops_launches(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(JournalError) as refused:
        await FileJournal(tmp_path / "file").put(INTENT)

    assert "survives a restart" in refused.value.hint


def test_the_zones_of_subnets_are_read_from_the_request() -> None:
    assert subnet_zones(REQUEST) == {"s": "z"}


TOKEN = launch_token((("u1", 0),))


def _ours(**changes: Any) -> LaunchIntent:
    """An intent as we write it, with parts of its request changed."""
    tags = {
        labels.EKS_CLUSTER_NAME_TAG: "prod",
        LAUNCH_TAG: TOKEN,
        CLAIM_UID_TAG: "u1",
        labels.EC2NODECLASS_TAG: "default",
        **changes.pop("tags", {}),
    }
    request = {
        "Type": "instant",
        "ClientToken": TOKEN,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "karpenter.k8s.aws/1"},
                "Overrides": [],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
        "TagSpecifications": [
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
        **changes,
    }
    return replace(INTENT, token=TOKEN, members=(("u1", 0),), request=request)


def test_an_intent_of_ours_is_trusted() -> None:
    assert problem_of(_ours(), "prod", "default") == ""
    assert (
        problem_of(replace(_ours(), assigned={"u1": Launched("i-1", "m5.large", "z", "spot")}), "prod") == ""
    )


@pytest.mark.parametrize(
    ("intent", "problem"),
    [
        (replace(_ours(), token="other"), "token"),
        (replace(_ours(), members=(("u2", 0),)), "token"),
        (replace(_ours(), assigned={"u9": Launched("i-1", "m5.large", "z", "spot")}), "u9"),
        (replace(_ours(), request={}), "not one of ours"),
        (_ours(LaunchTemplateConfigs=["x"]), "not one of ours"),
        (_ours(LaunchTemplateConfigs=[]), "launch templates"),
        (
            _ours(LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": "miner"}}]),
            "launch templates",
        ),
        (_ours(Type="maintain"), "not for its claims"),
        (_ours(ClientToken="x"), "not for its claims"),
        (_ours(TargetCapacitySpecification={"TotalTargetCapacity": 500}), "not for its claims"),
        (_ours(tags={labels.EKS_CLUSTER_NAME_TAG: "test"}), "cluster prod"),
        (_ours(tags={LAUNCH_TAG: "x"}), "cluster prod"),
        (_ours(tags={CLAIM_UID_TAG: "u9"}), "another claim"),
        (_ours(tags={labels.EC2NODECLASS_TAG: "gpu"}), "node class default"),
    ],
)
def test_an_intent_that_is_not_ours_for_this_claim_is_not_trusted(intent: LaunchIntent, problem: str) -> None:
    assert problem in problem_of(intent, "prod", "default")
