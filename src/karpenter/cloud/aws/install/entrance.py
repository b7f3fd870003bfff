# SPDX-License-Identifier: Apache-2.0
"""Who may enter the cluster by EKS's own records: nodes by an access entry, the controller by Pod Identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.cloud.aws.install.account import Account
from karpenter.cloud.aws.install.pieces import ABSENT, MARK, Found, Piece, Standing

__all__ = ["AccessEntryPiece", "PodIdentityPiece"]

_GONE: Final = frozenset({"ResourceNotFoundException"})


@dataclass(frozen=True)
class AccessEntryPiece(Piece):
    """Lets nodes with the node role join the cluster."""

    name: str
    cluster: str
    kind: str = "access entry"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return "lets nodes with this role join the cluster"

    def find(self, account: Account) -> Found:
        """Look at it."""
        answer = account.ask("eks", "DescribeAccessEntry", _GONE, **self._named)
        if answer is None:
            return ABSENT
        kind = answer["accessEntry"].get("type")
        if kind != "EC2_LINUX":
            return Found(Standing.FOREIGN, (f"the access entry of {self.name} is for {kind}, not EC2_LINUX",))
        # Who made it does not matter: it says what is needed.
        return Found(Standing.RIGHT)

    def make(self, account: Account) -> None:
        """Make or mend it."""
        account.call("eks", "CreateAccessEntry", **self._named, type="EC2_LINUX", tags={MARK: self.cluster})

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        answer = account.ask("eks", "DescribeAccessEntry", _GONE, **self._named)
        if answer and answer["accessEntry"].get("tags", {}).get(MARK) == self.cluster:
            account.call("eks", "DeleteAccessEntry", **self._named)

    @property
    def _named(self) -> dict[str, str]:
        return {"clusterName": self.cluster, "principalArn": self.name}


@dataclass(frozen=True)
class PodIdentityPiece(Piece):
    """Gives the controller's pods the controller's role without an identity provider."""

    name: str
    cluster: str
    namespace: str
    service_account: str
    role_arn: str
    kind: str = "pod identity"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return "gives the controller's pods their role"

    def find(self, account: Account) -> Found:
        """Look at it."""
        found = self._association(account)
        if found is None:
            return ABSENT
        differences = self._differences(found)
        if found.get("tags", {}).get(MARK) != self.cluster:
            if not differences:
                return Found(Standing.RIGHT)
            return self.foreign(f"a pod identity of {self.namespace}/{self.service_account}")
        return Found.compared(differences)

    def make(self, account: Account) -> None:
        """Make or mend it."""
        found = self._association(account)
        if found is None:
            account.call(
                "eks",
                "CreatePodIdentityAssociation",
                clusterName=self.cluster,
                namespace=self.namespace,
                serviceAccount=self.service_account,
                roleArn=self.role_arn,
                tags={MARK: self.cluster},
            )
        elif self._differences(found):
            account.call(
                "eks",
                "UpdatePodIdentityAssociation",
                clusterName=self.cluster,
                associationId=found["associationId"],
                roleArn=self.role_arn,
                disableSessionTags=False,
            )

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        found = self._association(account)
        if found and found.get("tags", {}).get(MARK) == self.cluster:
            account.call(
                "eks",
                "DeletePodIdentityAssociation",
                clusterName=self.cluster,
                associationId=found["associationId"],
            )

    def _differences(self, found: Mapping[str, Any]) -> list[str]:
        differences = [] if found["roleArn"] == self.role_arn else ["its role"]
        # The role trusts who comes with the session tags of the controller's service account.
        return [*differences, "its session tags are off"] if found.get("disableSessionTags") else differences

    def _association(self, account: Account) -> dict[str, Any] | None:
        listed = account.call(
            "eks",
            "ListPodIdentityAssociations",
            clusterName=self.cluster,
            namespace=self.namespace,
            serviceAccount=self.service_account,
        )["associations"]
        if not listed:
            return None
        answer = account.call(
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=self.cluster,
            associationId=listed[0]["associationId"],
        )
        found: dict[str, Any] = answer["association"]
        return found
