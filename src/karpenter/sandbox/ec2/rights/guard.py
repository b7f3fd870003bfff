# SPDX-License-Identifier: Apache-2.0
"""Weighs the calls of keys that were put under a role's policies, and counts which statement allowed what.

A key that was not is its role's too, as STS tells: it may do everything but what a policy of that role denies.
Policies are read anew for each call from what the role has at that moment, so that attaching and detaching works at
once. A policy of AWS itself that is called AdministratorAccess allows everything; the others allow nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karpenter.sandbox.ec2.rights.policies import Asked, PolicyError, Statement, read_policy, weigh
from karpenter.sandbox.ec2.rights.touching import touched

if TYPE_CHECKING:
    from karpenter.sandbox.ec2.world import World

__all__ = ["Guard"]

_EVERYTHING = '{"Statement":{"Sid":"AdministratorAccess","Effect":"Allow","Action":"*","Resource":"*"}}'


class Guard:
    """Which key stands under which role, and what was allowed by what."""

    def __init__(self) -> None:
        self.roles: dict[str, str] = {}
        self.allowed: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self._read: dict[str, tuple[Statement, ...]] = {}

    def check(
        self, world: World, service: str, operation: str, access_key: str, parameters: Mapping[str, Any]
    ) -> Asked | None:
        """Give the first thing that the call touches and may not; None if all is allowed."""
        role = self.roles.get(access_key)
        if role is None:
            return self._denied(world, service, operation, access_key, parameters)
        statements = self._statements(world, role)
        for asked in touched(world, service, operation, parameters):
            decided = weigh(statements, asked)
            if decided is None or not decided.allows:
                self.refused[asked.action, asked.resource] += 1
                return asked
            self.allowed[decided.sid, asked.action] += 1
        return None

    def _denied(
        self, world: World, service: str, operation: str, access_key: str, parameters: Mapping[str, Any]
    ) -> Asked | None:
        """Return the first thing that the call touches and that a policy of the key's role denies."""
        role = world.sts.identity(access_key).arn.split("/")[1]
        denying = [each for each in self._statements(world, role, readable=True) if not each.allows]
        if not denying:
            return None
        for asked in touched(world, service, operation, parameters):
            if weigh(denying, asked) is not None:
                self.refused[asked.action, asked.resource] += 1
                return asked
        return None

    def as_dict(self) -> dict[str, Any]:
        """Give what was weighed, as JSON shows it."""
        return {
            "roles": self.roles,
            "allowed": [
                {"sid": sid, "action": action, "count": count}
                for (sid, action), count in sorted(self.allowed.items())
            ],
            "refused": [
                {"action": action, "resource": resource, "count": count}
                for (action, resource), count in sorted(self.refused.items())
            ],
        }

    def _statements(self, world: World, name: str, *, readable: bool = False) -> list[Statement]:
        """Return the statements of a role's policies, all of them or those of documents that can be read."""
        role = world.iam.roles.get(name)
        if role is None:
            return []
        texts = list(role.inline.values())
        for arn in role.attached:
            if arn.endswith(":aws:policy/AdministratorAccess"):
                texts.append(_EVERYTHING)
            elif arn in world.iam.policies:
                texts.append(world.iam.policies[arn].document)
        found: list[Statement] = []
        for text in texts:
            try:
                if text not in self._read:
                    self._read[text] = read_policy(text)
            except PolicyError:
                if readable:
                    continue
                raise
            found += self._read[text]
        return found
