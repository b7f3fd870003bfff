# SPDX-License-Identifier: Apache-2.0
"""Conditions: which each kind has, and how one change of a condition changes the rest.

A kind has a root (Ready) and dependents that decide it; any other condition only informs. Dependents that
nobody has written yet are Unknown since the object was created. The root is True when every dependent is True
at the present generation, False as soon as one is False at the present generation, and Unknown otherwise. A
transition time moves only when a status changes. Everything here is a value: a change makes a new set, and no
change gives back the same one, so that ``is`` tells whether there is anything to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import msgspec

from karpenter.api.meta import Condition, ObjectMeta
from karpenter.errors import KarpenterError

__all__ = [
    "AMIS_READY",
    "AWAITING_RECONCILIATION",
    "CAPACITY_BUFFER",
    "CAPACITY_RESERVATIONS_READY",
    "CONSISTENT_STATE_FOUND",
    "CONSOLIDATABLE",
    "DISRUPTION_REASON",
    "DRAINED",
    "DRIFTED",
    "EC2_NODE_CLASS",
    "EC2_NODE_CLASS_WITH_RESERVATIONS",
    "INITIALIZED",
    "INSTANCE_PROFILE_READY",
    "INSTANCE_TERMINATING",
    "INSTANCE_TERMINATION_HEALTHY",
    "LAUNCHED",
    "LIMITED_BY_QUOTAS",
    "MACHINE_NAMES",
    "NODE_CLAIM",
    "NODE_CLASS_READY",
    "NODE_OVERLAY",
    "NODE_POOL",
    "NODE_REGISTRATION_HEALTHY",
    "PLACEMENT_GROUP_READY",
    "PROVISIONING",
    "READY",
    "READY_FOR_PROVISIONING",
    "RECONCILING_DEPENDENTS",
    "REGISTERED",
    "SECURITY_GROUPS_READY",
    "SUBNETS_READY",
    "UNHEALTHY_DEPENDENTS",
    "VALIDATION_SUCCEEDED",
    "VOLUMES_DETACHED",
    "ConditionSet",
    "ConditionTypes",
    "DependentConditionError",
    "is_true",
]

READY: Final = "Ready"

# NodePool; VALIDATION_SUCCEEDED also NodeOverlay and EC2NodeClass.
VALIDATION_SUCCEEDED: Final = "ValidationSucceeded"
NODE_CLASS_READY: Final = "NodeClassReady"
NODE_REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"

# NodeClaim.
LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
CONSISTENT_STATE_FOUND: Final = "ConsistentStateFound"
DISRUPTION_REASON: Final = "DisruptionReason"

# EC2NodeClass.
AMIS_READY: Final = "AMIsReady"
SUBNETS_READY: Final = "SubnetsReady"
SECURITY_GROUPS_READY: Final = "SecurityGroupsReady"
INSTANCE_PROFILE_READY: Final = "InstanceProfileReady"
PLACEMENT_GROUP_READY: Final = "PlacementGroupReady"
CAPACITY_RESERVATIONS_READY: Final = "CapacityReservationsReady"
# Ours: False while the cloud refuses to end an instance of the class; it informs and decides nothing.
INSTANCE_TERMINATION_HEALTHY: Final = "InstanceTerminationHealthy"

# CapacityBuffer.
READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
LIMITED_BY_QUOTAS: Final = "LimitedByQuotas"

# Reasons that this module writes.
AWAITING_RECONCILIATION: Final = "AwaitingReconciliation"
RECONCILING_DEPENDENTS: Final = "ReconcilingDependents"
UNHEALTHY_DEPENDENTS: Final = "UnhealthyDependents"

# What a v1alpha5 Machine called the conditions of a NodeClaim; MachineEmpty and MachineExpired have no
# successor.
MACHINE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MachineLaunched": LAUNCHED,
        "MachineRegistered": REGISTERED,
        "MachineInitialized": INITIALIZED,
        "MachineDrifted": DRIFTED,
    }
)

# What is written where no time is known; the API demands one.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Sorts before every real time, as an unset time does in Kubernetes.
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


def is_true(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Return whether a condition is among them and True."""
    return any(each.type == condition_type and each.status == "True" for each in conditions)


class DependentConditionError(KarpenterError):
    """A condition that the root depends on, or the root itself, cannot be taken away."""


@dataclass(frozen=True)
class ConditionTypes:
    """The conditions of a kind: a root, if it has one, and what the root depends on."""

    dependents: tuple[str, ...] = ()
    root: str = READY

    def decides(self, condition_type: str) -> bool:
        """Return whether the condition is the root or one that the root depends on."""
        return condition_type == self.root or condition_type in self.dependents


NODE_POOL: Final = ConditionTypes((VALIDATION_SUCCEEDED, NODE_CLASS_READY))
NODE_CLAIM: Final = ConditionTypes((LAUNCHED, REGISTERED, INITIALIZED))
NODE_OVERLAY: Final = ConditionTypes((VALIDATION_SUCCEEDED,))
EC2_NODE_CLASS: Final = ConditionTypes(
    (
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
    )
)
# With the gate ReservedCapacity.
EC2_NODE_CLASS_WITH_RESERVATIONS: Final = ConditionTypes(
    (*EC2_NODE_CLASS.dependents, CAPACITY_RESERVATIONS_READY)
)
# A buffer's conditions stand on their own.
CAPACITY_BUFFER: Final = ConditionTypes(root="")


@dataclass(frozen=True)
class ConditionSet:
    """The conditions of one object, at one generation."""

    types: ConditionTypes
    metadata: ObjectMeta
    conditions: tuple[Condition, ...]

    @classmethod
    def of(
        cls, types: ConditionTypes, metadata: ObjectMeta, conditions: Iterable[Condition] = ()
    ) -> ConditionSet:
        """Return the conditions of an object, the deciding ones that nobody wrote yet as Unknown."""
        result = cls(types, metadata, tuple(conditions))
        for condition_type in (types.root, *types.dependents):
            if condition_type and result.get(condition_type) is None:
                # No clock is needed: what is missing has been so since the object was created.
                result = result.unknown(condition_type, metadata.creation_timestamp or _NO_TIME)
        return result

    def get(self, condition_type: str) -> Condition | None:
        """Return the condition of that type, if it was ever written."""
        return next((each for each in self.conditions if each.type == condition_type), None)

    def is_true(self, *condition_types: str) -> bool:
        """Return whether all these conditions are True, at whatever generation."""
        return all(self._status(each) == "True" for each in condition_types)

    def is_current(self, condition_type: str) -> bool:
        """Return whether the condition was last written for the present generation."""
        condition = self.get(condition_type)
        return condition is not None and condition.observed_generation == self.metadata.generation

    def true(
        self, condition_type: str, now: datetime, *, reason: str = "", message: str = ""
    ) -> ConditionSet:
        """Return the set with the condition True; its reason is its own name unless one is given."""
        return self._set(condition_type, "True", reason or condition_type, message, now)

    def false(self, condition_type: str, now: datetime, *, reason: str, message: str = "") -> ConditionSet:
        """Return the set with the condition False."""
        return self._set(condition_type, "False", reason, message, now)

    def unknown(
        self,
        condition_type: str,
        now: datetime,
        *,
        reason: str = AWAITING_RECONCILIATION,
        message: str = "object is awaiting reconciliation",
    ) -> ConditionSet:
        """Return the set with the condition Unknown."""
        return self._set(condition_type, "Unknown", reason, message, now)

    def without(self, condition_type: str) -> ConditionSet:
        """Return the set without an informing condition.

        Raises:
            DependentConditionError: the condition is the root or one that the root depends on.
        """
        if self.types.decides(condition_type):
            raise DependentConditionError(
                f"condition {condition_type} of {self.metadata.name} decides whether it is {self.types.root}"
                " and cannot be removed",
                hint="set it to Unknown instead",
            )
        kept = tuple(each for each in self.conditions if each.type != condition_type)
        return self if len(kept) == len(self.conditions) else replace(self, conditions=kept)

    def rebased(self, before: Iterable[Condition], onto: ConditionSet) -> ConditionSet:
        """Return another set of the same object with what was changed here; what others changed there stays.

        Args:
            before: The conditions that this set was made from.
            onto: The conditions that the object has now.
        """
        known = ConditionSet.of(self.types, self.metadata, before)
        for each in self.conditions:
            if each.type != self.types.root and each != known.get(each.type):
                since = each.last_transition_time or _NO_TIME
                onto = onto._set(each.type, each.status, each.reason, each.message, since)
        return onto

    def to_wire(self) -> list[dict[str, object]]:
        """Return the conditions as the API wants them: every field that it demands, even where it is empty."""
        return [
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": max(each.last_transition_time or _EPOCH, _EPOCH).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"
                ),
                "observedGeneration": each.observed_generation,
            }
            for each in self.conditions
        ]

    def judged(self, now: datetime) -> ConditionSet:
        """Return the set with the root decided anew from its dependents."""
        if not self.types.root:
            return self
        unhealthy = self._unhealthy()
        if not unhealthy:
            return self.true(self.types.root, now)
        message = ", ".join(f"{each.type}={each.status}" for each in unhealthy)
        if any(each.status == "False" and self.is_current(each.type) for each in unhealthy):
            return self.false(self.types.root, now, reason=UNHEALTHY_DEPENDENTS, message=message)
        return self.unknown(self.types.root, now, reason=RECONCILING_DEPENDENTS, message=message)

    def _status(self, condition_type: str) -> str:
        condition = self.get(condition_type)
        return condition.status if condition else "Unknown"

    def _set(
        self, condition_type: str, status: str, reason: str, message: str, now: datetime
    ) -> ConditionSet:
        before = self.get(condition_type)
        after = Condition(
            type=condition_type,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=self._transition(before, condition_type, status, now),
            observed_generation=self.metadata.generation,
        )
        if after == before:
            return self
        others = (self._seen(each) for each in self.conditions if each.type != condition_type)
        changed = replace(self, conditions=tuple(sorted((*others, after), key=self._rank)))
        return changed if condition_type == self.types.root else changed.judged(now)

    def _transition(
        self, before: Condition | None, condition_type: str, status: str, now: datetime
    ) -> datetime | None:
        if before is None and self.types.decides(condition_type):
            return self.metadata.creation_timestamp
        if before is not None and before.status == status:
            return before.last_transition_time
        # The API stores whole seconds; a finer time would not compare equal once read back.
        return now.replace(microsecond=0)

    def _seen(self, other: Condition) -> Condition:
        # The spec of an object that is being deleted is not acted on any more, so no condition can lag behind
        # it.
        if self.metadata.deletion_timestamp is None:
            return other
        return msgspec.structs.replace(other, observed_generation=self.metadata.generation)

    def _rank(self, condition: Condition) -> tuple[bool, datetime]:
        return condition.type == self.types.root, condition.last_transition_time or _NO_TIME

    def _unhealthy(self) -> list[Condition]:
        unhealthy = [
            each
            for each in self.conditions
            if each.type in self.types.dependents
            and (each.status != "True" or not self.is_current(each.type))
        ]
        # What changed last is what a person looks for first; within a second, that is what was set last.
        waiting = [each for each in unhealthy if each.reason == AWAITING_RECONCILIATION]
        newest_first = [each for each in reversed(unhealthy) if each not in waiting] + waiting
        return sorted(newest_first, key=lambda each: each.last_transition_time or _NO_TIME, reverse=True)
