# SPDX-License-Identifier: Apache-2.0
"""The discovery tag on the network that nodes use: subnets and security groups, which are not ours."""

from __future__ import annotations

from dataclasses import dataclass

from karpenter.cloud.aws.install.account import Account, tag_list
from karpenter.cloud.aws.install.pieces import ABSENT, MARK, Found, Piece, Standing

__all__ = ["DISCOVERY", "TagPiece"]

DISCOVERY = "karpenter.sh/discovery"


@dataclass(frozen=True)
class TagPiece(Piece):
    """The tag by which node classes find one subnet or security group.

    Beside it stands our mark where we wrote it: a tag that a person had written before stays when we go.
    """

    name: str
    cluster: str
    kind: str = "discovery tag"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        what = "subnet" if self.name.startswith("subnet-") else "security group"
        return f"lets node classes find this {what}"

    def find(self, account: Account) -> Found:
        """Look at it."""
        found = self._tags(account).get(DISCOVERY)
        if found is None:
            return ABSENT
        if found == self.cluster:
            return Found(Standing.RIGHT)
        text = f"{self.name} carries {DISCOVERY}={found}, another cluster's"
        return Found(Standing.FOREIGN, (text,))

    def make(self, account: Account) -> None:
        """Make or mend it."""
        tags = tag_list({DISCOVERY: self.cluster, MARK: self.cluster})
        account.call("ec2", "CreateTags", Resources=[self.name], Tags=tags)

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        if self._tags(account).get(MARK) == self.cluster:
            tags = tag_list({DISCOVERY: self.cluster, MARK: self.cluster})
            account.call("ec2", "DeleteTags", Resources=[self.name], Tags=tags)

    def _tags(self, account: Account) -> dict[str, str]:
        filters = [{"Name": "resource-id", "Values": [self.name]}]
        return {
            each["Key"]: each["Value"]
            for each in account.pages("ec2", "DescribeTags", "Tags", Filters=filters)
        }
