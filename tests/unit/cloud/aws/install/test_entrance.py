# SPDX-License-Identifier: Apache-2.0
"""How an existing pod identity is judged: its role, its session tags, and who made it."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.aws.install import Account
from karpenter.cloud.aws.install.entrance import PodIdentityPiece
from karpenter.cloud.aws.install.pieces import MARK, Standing

ROLE = "arn:aws:iam::111122223333:role/KarpenterControllerRole-prod"
PIECE = PodIdentityPiece("karpenter/karpenter", "prod", "karpenter", "karpenter", ROLE)


class OneIdentity(Account):
    """An account whose cluster has one pod identity."""

    def __init__(self, **association: Any) -> None:
        super().__init__("eu-west-1")
        self._association = {"associationId": "a-1", "roleArn": ROLE, **association}
        self.changed: list[dict[str, Any]] = []

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        assert service == "eks"
        if operation == "UpdatePodIdentityAssociation":
            self.changed.append(parameters)
        return {"associations": [self._association], "association": self._association}


@pytest.mark.parametrize(
    ("association", "standing", "differences"),
    [
        ({"tags": {MARK: "prod"}}, Standing.RIGHT, ()),
        ({}, Standing.RIGHT, ()),
        ({"tags": {MARK: "prod"}, "roleArn": "other"}, Standing.DIFFERS, ("its role",)),
        (
            {"tags": {MARK: "prod"}, "disableSessionTags": True},
            Standing.DIFFERS,
            ("its session tags are off",),
        ),
    ],
)
def test_a_pod_identity_is_right_with_our_role_and_with_session_tags(
    association: dict[str, Any], standing: Standing, differences: tuple[str, ...]
) -> None:
    found = PIECE.find(OneIdentity(**association))

    assert (found.standing, found.differences) == (standing, differences)


@pytest.mark.parametrize("association", [{"roleArn": "other"}, {"disableSessionTags": True}])
def test_one_that_others_made_otherwise_is_in_conflict(association: dict[str, Any]) -> None:
    assert PIECE.find(OneIdentity(**association)).standing is Standing.FOREIGN


def test_mending_turns_session_tags_on_because_the_role_trusts_by_them() -> None:
    account = OneIdentity(tags={MARK: "prod"}, disableSessionTags=True)

    PIECE.make(account)

    (change,) = account.changed
    assert (change["roleArn"], change["disableSessionTags"]) == (ROLE, False)


def test_one_that_is_right_is_left_alone() -> None:
    account = OneIdentity()

    PIECE.make(account)

    assert account.changed == []
