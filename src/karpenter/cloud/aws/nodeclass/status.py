# SPDX-License-Identifier: Apache-2.0
"""The status of a node class: what its selectors find in AWS, and whether it can be launched from.

``NodeClassStatus.resolve`` looks for images, reservations, the placement group, subnets, security groups and the
instance profile, in this order, and then judges the class as a whole. Each step stands for itself: one that fails makes
its own condition False, says why, naming the field and the next step, and the others go on; so does every other class.
Where AWS only could not be asked, what an earlier look found for the same generation stays, because an outage of a
control plane is no reason to stop launching from what is known.

What is found is returned, not written: a value with the new status, the annotations of the fingerprint, notices for
events, and when to look again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from karpenter.api import conditions, labels
from karpenter.api.base import EMPTY
from karpenter.api.conditions import ConditionSet
from karpenter.api.ec2nodeclass import AMISelectorTerm, EC2NodeClass, EC2NodeClassStatus
from karpenter.cloud.aws.amis import Amis
from karpenter.cloud.aws.amis.families import FamilyError
from karpenter.cloud.aws.amis.finding import NOT_FOUND as AMI_NOT_FOUND
from karpenter.cloud.aws.amis.finding import AmiSelectionError
from karpenter.cloud.aws.amis.images import Images, NoteKind
from karpenter.cloud.aws.discovery import Account, Notice, Owned, foreign_notices
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass.checks import kubelet_problem, tag_problem
from karpenter.cloud.aws.nodeclass.dryruns import DryRuns
from karpenter.cloud.aws.nodeclass.fingerprint import hash_annotations
from karpenter.cloud.aws.nodeclass.problems import Problem, problem_of
from karpenter.cloud.aws.placementgroups import PlacementGroupNotFoundError, PlacementGroups
from karpenter.cloud.aws.profiles import InstanceProfiles, RoleNotFoundError
from karpenter.cloud.aws.reservations import Reservations
from karpenter.cloud.aws.securitygroups import FoundSecurityGroup, SecurityGroups
from karpenter.cloud.aws.subnets import FoundSubnet, Subnets
from karpenter.cloud.aws.userdata import Cluster, user_data
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock

__all__ = ["CleanedUp", "NodeClassStatus", "Resolved", "StatusParts"]

SUBNETS_NOT_FOUND: Final = "SubnetsNotFound"
SECURITY_GROUPS_NOT_FOUND: Final = "SecurityGroupsNotFound"
PLACEMENT_GROUP_NOT_FOUND: Final = "PlacementGroupNotFound"
PLACEMENT_GROUP_FAILED: Final = "PlacementGroupResolutionFailed"
RESERVATIONS_FAILED: Final = "CapacityReservationResolutionFailed"
ROLE_NOT_FOUND: Final = "NodeRoleNotFound"
PROFILE_FAILED: Final = "InstanceProfileResolutionFailed"
DEPENDENCIES_NOT_READY: Final = "DependenciesNotReady"

_AMI_S: Final = 300.0
_GROUP_S: Final = 300.0
_SUBNET_S: Final = 60.0
_RESERVATION_S: Final = 60.0
_VALIDATION_S: Final = 600.0
_AFTER_FAILURE_S: Final = 60.0
_AFTER_OUTAGE_S: Final = 10.0

_NOTE_REASONS: Final = {
    NoteKind.FOREIGN_OWNER: "ForeignOwner",
    NoteKind.UNSUPPORTED_ARCHITECTURE: "UnsupportedArchitecture",
    NoteKind.PARAMETER_NOT_FOUND: "SSMParameterNotFound",
    NoteKind.PARAMETER_NOT_AN_IMAGE: "SSMParameterNotAnImage",
}
# Karpenter's sentences for selectors that match nothing.
_KNOWN_AS: Final = {
    SUBNETS_NOT_FOUND: "SubnetSelector did not match any Subnets",
    SECURITY_GROUPS_NOT_FOUND: "SecurityGroupSelector did not match any SecurityGroups",
}
_MESSAGE_CHARACTERS: Final = 4096


@dataclass(frozen=True, kw_only=True)
class StatusParts:
    """What the status of node classes is made with.

    Attributes:
        clock: Its time.
        cluster_name: Whose classes these are.
        kubernetes: Gives the cluster's version, such as 1.33.
        cluster: Gives the cluster that nodes join.
        account: Whose credentials these are.
        amis: Finds images.
        reservations: Finds capacity reservations.
        placement_groups: Finds placement groups.
        subnets: Finds subnets.
        security_groups: Finds security groups.
        profiles: Makes and finds instance profiles.
        templates: Launch templates, removed with their class.
        dry_runs: Asks EC2 whether it would launch; None leaves that out (disable-dry-run).
        uses_reservations: Whether reserved capacity is handled (gate ReservedCapacity).
        isolated_vpc: Whether IAM is out of reach, so that instance profiles are left behind with a class.
    """

    clock: Clock
    cluster_name: str
    kubernetes: Callable[[], str]
    cluster: Callable[[], Cluster]
    account: Account
    amis: Amis
    reservations: Reservations
    placement_groups: PlacementGroups
    subnets: Subnets
    security_groups: SecurityGroups
    profiles: InstanceProfiles
    templates: LaunchTemplates
    dry_runs: DryRuns | None = None
    uses_reservations: bool = True
    isolated_vpc: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of a look at a node class.

    Attributes:
        status: The status to write; the very same conditions where nothing changed.
        annotations: The fingerprint to write to the class's metadata.
        notices: What a person should know although it may be used.
        problems: What keeps conditions from being True, by the type of the condition.
        look_again_s: When to look again.
    """

    status: EC2NodeClassStatus
    annotations: Mapping[str, str] = field(default=EMPTY)
    notices: tuple[Notice, ...] = ()
    problems: Mapping[str, Problem] = field(default=EMPTY)
    look_again_s: float = _SUBNET_S

    @property
    def remarks(self) -> tuple[Notice, ...]:
        """Everything that deserves an event: the notices, and the problems under the names of their conditions."""
        return self.notices + tuple(
            Notice(each.reason, condition, each.message, each.hint)
            for condition, each in self.problems.items()
            if each.reason != DEPENDENCIES_NOT_READY
        )


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """How much was removed with a node class."""

    profiles: int
    templates: int


@dataclass(slots=True)
class _Draft:
    """A status in the making."""

    node_class: EC2NodeClass
    conditions: ConditionSet
    status: EC2NodeClassStatus
    clock: Clock
    notices: list[Notice] = field(default_factory=list)
    problems: dict[str, Problem] = field(default_factory=dict)
    look_again_s: float = _VALIDATION_S

    def passes(
        self, condition: str, notices: tuple[Notice, ...] = (), *, again_s: float = _VALIDATION_S
    ) -> None:
        self.notices += notices
        # A condition that is True may still have something to say.
        message = "; ".join(map(str, notices))[:_MESSAGE_CHARACTERS]
        self.conditions = self.conditions.true(condition, self.clock.now(), message=message)
        self.look_again_s = min(self.look_again_s, again_s)

    def awaits(self, condition: str, problem: Problem) -> None:
        """Note a problem that may end by itself: IAM tells of a new role late. It is Unknown, as with Karpenter."""
        self.problems[condition] = problem
        message = str(problem)[:_MESSAGE_CHARACTERS]
        self.conditions = self.conditions.unknown(
            condition, self.clock.now(), reason=problem.reason, message=message
        )
        self.look_again_s = min(self.look_again_s, _AFTER_OUTAGE_S)

    def fails(self, condition: str, problem: Problem) -> bool:
        """Note a problem, and tell whether what was found before is void now."""
        self.problems[condition] = problem
        now, message = self.clock.now(), (problem.known_as or str(problem))[:_MESSAGE_CHARACTERS]
        if problem.is_verdict:
            self.conditions = self.conditions.false(condition, now, reason=problem.reason, message=message)
            self.look_again_s = min(self.look_again_s, _AFTER_FAILURE_S)
            return True
        self.look_again_s = min(self.look_again_s, _AFTER_OUTAGE_S)
        if not (self.conditions.is_true(condition) and self.conditions.is_current(condition)):
            self.conditions = self.conditions.unknown(condition, now, reason=problem.reason, message=message)
        return False


class NodeClassStatus:
    """Finds out the status of node classes."""

    def __init__(self, parts: StatusParts) -> None:
        self._parts = parts

    async def resolve(self, node_class: EC2NodeClass) -> Resolved:
        """Return what the status of a node class is now; whatever AWS answers is in the value."""
        draft = _Draft(node_class, self._conditions(node_class), node_class.status, self._parts.clock)
        await self._amis(draft)
        await self._reservations(draft)
        await self._placement_group(draft)
        subnets = await self._subnets(draft)
        groups = await self._security_groups(draft)
        draft.notices += _vpc_notices(subnets, groups)
        await self._profile(draft)
        await self._validate(draft)
        try:
            annotations = hash_annotations(node_class, ca_bundle=self._parts.cluster().ca_bundle)
        except FamilyError:
            annotations = EMPTY  # told by AMIsReady
        return Resolved(
            status=replace(draft.status, conditions=draft.conditions.conditions),
            annotations=annotations,
            notices=tuple(dict.fromkeys(draft.notices)),
            problems=draft.problems,
            look_again_s=draft.look_again_s,
        )

    async def cleanup(self, node_class: EC2NodeClass) -> CleanedUp:
        """Remove what was made for a node class; to be called when no claim uses it any more.

        Raises:
            AwsError: AWS refuses to remove something; calling again goes on from there.
            AwsUnreachableError: AWS did not answer.
        """
        profiles = 0
        if not node_class.spec.instance_profile and not self._parts.isolated_vpc:
            profiles = await self._parts.profiles.delete_of(node_class)
        return CleanedUp(profiles, await self._parts.templates.delete_of(node_class.metadata.name))

    def _conditions(self, node_class: EC2NodeClass) -> ConditionSet:
        there = node_class.status.conditions
        if self._parts.uses_reservations:
            types = conditions.EC2_NODE_CLASS_WITH_RESERVATIONS
        else:
            types = conditions.EC2_NODE_CLASS
            there = tuple(each for each in there if each.type != conditions.CAPACITY_RESERVATIONS_READY)
        return ConditionSet.of(types, node_class.metadata, there)

    async def _amis(self, draft: _Draft) -> None:
        selector = "spec.amiSelectorTerms"
        try:
            _refuse_empty_terms(draft.node_class)
            found = await self._parts.amis.find(draft.node_class, self._parts.kubernetes())
        except KarpenterError as error:
            problem = problem_of(error, field=selector, reason=AMI_NOT_FOUND)
            if draft.fails(conditions.AMIS_READY, problem):
                draft.status = replace(draft.status, amis=())
            return
        draft.status = replace(draft.status, amis=found.status())
        draft.passes(conditions.AMIS_READY, _image_notices(found, selector), again_s=_AMI_S)

    async def _reservations(self, draft: _Draft) -> None:
        if not self._parts.uses_reservations:
            draft.status = replace(draft.status, capacity_reservations=())
            return
        selector = "spec.capacityReservationSelectorTerms"
        try:
            found = await self._parts.reservations.find(draft.node_class)
        except KarpenterError as error:
            problem = problem_of(error, field=selector, reason=RESERVATIONS_FAILED)
            if draft.fails(conditions.CAPACITY_RESERVATIONS_READY, problem):
                draft.status = replace(draft.status, capacity_reservations=())
            return
        draft.status = replace(draft.status, capacity_reservations=tuple(each.reservation for each in found))
        named = {
            owner
            for term in draft.node_class.spec.capacity_reservation_selector_terms
            if (owner := term.owner_id)
        }
        strangers = [each.owned for each in found if each.owned.owner_id not in named]
        notices = await self._foreign(strangers, selector, "capacity reservation")
        has_terms = bool(draft.node_class.spec.capacity_reservation_selector_terms)
        again_s = _RESERVATION_S if has_terms else _VALIDATION_S
        draft.passes(conditions.CAPACITY_RESERVATIONS_READY, notices, again_s=again_s)

    async def _placement_group(self, draft: _Draft) -> None:
        try:
            await self._parts.placement_groups.find(draft.node_class)
        except PlacementGroupNotFoundError as error:
            draft.fails(
                conditions.PLACEMENT_GROUP_READY,
                Problem(PLACEMENT_GROUP_NOT_FOUND, error.message, error.hint),
            )
        except KarpenterError as error:
            problem = problem_of(error, field="spec.placementGroupSelector", reason=PLACEMENT_GROUP_FAILED)
            draft.fails(conditions.PLACEMENT_GROUP_READY, problem)
        else:
            draft.passes(conditions.PLACEMENT_GROUP_READY)

    async def _subnets(self, draft: _Draft) -> tuple[FoundSubnet, ...]:
        selector = "spec.subnetSelectorTerms"
        try:
            found = await self._parts.subnets.find(draft.node_class)
        except KarpenterError as error:
            problem = problem_of(error, field=selector, reason=SUBNETS_NOT_FOUND)
            if draft.fails(conditions.SUBNETS_READY, problem):
                draft.status = replace(draft.status, subnets=())
            return ()
        draft.status = replace(draft.status, subnets=tuple(each.status() for each in found))
        if not found:
            is_empty = not draft.node_class.spec.subnet_selector_terms
            draft.fails(
                conditions.SUBNETS_READY, _none_found(SUBNETS_NOT_FOUND, selector, "subnet", is_empty)
            )
            return ()
        notices = await self._foreign([each.owned for each in found], selector, "subnet")
        draft.passes(conditions.SUBNETS_READY, notices, again_s=_SUBNET_S)
        return found

    async def _security_groups(self, draft: _Draft) -> tuple[FoundSecurityGroup, ...]:
        selector = "spec.securityGroupSelectorTerms"
        try:
            found = await self._parts.security_groups.find(draft.node_class)
        except KarpenterError as error:
            problem = problem_of(error, field=selector, reason=SECURITY_GROUPS_NOT_FOUND)
            if draft.fails(conditions.SECURITY_GROUPS_READY, problem):
                draft.status = replace(draft.status, security_groups=())
            return ()
        draft.status = replace(draft.status, security_groups=tuple(each.status() for each in found))
        if not found:
            is_empty = not draft.node_class.spec.security_group_selector_terms
            problem = _none_found(SECURITY_GROUPS_NOT_FOUND, selector, "security group", is_empty)
            draft.fails(conditions.SECURITY_GROUPS_READY, problem)
            return ()
        notices = await self._foreign([each.owned for each in found], selector, "security group")
        draft.passes(conditions.SECURITY_GROUPS_READY, notices, again_s=_GROUP_S)
        return found

    async def _profile(self, draft: _Draft) -> None:
        try:
            name = await self._parts.profiles.resolve(draft.node_class)
        except KarpenterError as error:
            if isinstance(error, RoleNotFoundError):
                problem = problem_of(error, field="spec.role", reason=ROLE_NOT_FOUND)
                draft.awaits(conditions.INSTANCE_PROFILE_READY, problem)
                draft.status = replace(draft.status, instance_profile="")
                return
            problem = problem_of(error, field="spec.role", reason=PROFILE_FAILED)
            if draft.fails(conditions.INSTANCE_PROFILE_READY, problem):
                draft.status = replace(draft.status, instance_profile="")
            return
        draft.status = replace(draft.status, instance_profile=name)
        draft.passes(conditions.INSTANCE_PROFILE_READY)

    async def _validate(self, draft: _Draft) -> None:
        condition = conditions.VALIDATION_SUCCEEDED
        problem = tag_problem(draft.node_class) or kubelet_problem(draft.node_class) or _dependencies(draft)
        notices: tuple[Notice, ...] = ()
        if problem is None:
            problem, notices = self._user_data(draft)
        if problem is None and self._parts.dry_runs is not None:
            problem = await self._parts.dry_runs.check(replace(draft.node_class, status=draft.status))
        if problem is None:
            draft.passes(condition, notices)
        else:
            draft.notices += notices
            draft.fails(condition, problem)

    def _user_data(self, draft: _Draft) -> tuple[Problem | None, tuple[Notice, ...]]:
        told = {labels.NODEPOOL: draft.node_class.metadata.name, labels.CAPACITY_TYPE: labels.ON_DEMAND}
        node_class = replace(draft.node_class, status=draft.status)
        try:
            made = user_data(self._parts.cluster(), node_class, labels=told, max_pods=110)
        except KarpenterError as error:
            return problem_of(error, field="spec.userData", reason="InvalidUserData"), ()
        return None, tuple(
            Notice("UserDataWarning", each.field, each.message, each.hint) for each in made.warnings
        )

    async def _foreign(self, found: list[Owned], selector: str, noun: str) -> tuple[Notice, ...]:
        try:
            account_id = await self._parts.account.id() if found else ""
        except KarpenterError:
            account_id = ""  # whose credentials these are is told by what is asked with them
        return foreign_notices(
            # By id: an order that moves with free addresses would change the condition every minute.
            sorted(found, key=lambda each: each.id),
            field=selector,
            noun=noun,
            account_id=account_id,
            cluster_name=self._parts.cluster_name,
        )


def _refuse_empty_terms(node_class: EC2NodeClass) -> None:
    """Refuse a term that says nothing, or only whose: it would find every image there is."""
    for number, term in enumerate(node_class.spec.ami_selector_terms):
        if replace(term, owner="") == AMISelectorTerm():
            raise AmiSelectionError(
                node_class.metadata.name,
                f"term {number} is empty",
                reason=AMI_NOT_FOUND,
                hint="give it an alias, id, name, tags or ssmParameter",
            )


def _image_notices(found: Images, selector: str) -> tuple[Notice, ...]:
    notices = [Notice(_NOTE_REASONS[each.kind], selector, each.message, each.hint) for each in found.notes]
    notices += [
        Notice(
            "DeprecatedAMI",
            selector,
            f"image {each.id} ({each.name}) is deprecated by its owner",
            "select a newer image; nodes of this one are replaced when you do",
        )
        for each in found.images
        if each.deprecated
    ]
    return tuple(dict.fromkeys(notices))


def _none_found(reason: str, selector: str, noun: str, is_empty: bool) -> Problem:  # noqa: FBT001
    if is_empty:
        return Problem(
            reason, f"{selector} is empty, so no {noun} is selected", "add a term with an id or tags"
        )
    return Problem(
        reason,
        f"{selector}: no {noun} matches any term",
        f"check ids, tags and region; a {noun} must carry every tag of a term",
        known_as=_KNOWN_AS[reason],
    )


def _vpc_notices(
    subnets: tuple[FoundSubnet, ...], groups: tuple[FoundSecurityGroup, ...]
) -> tuple[Notice, ...]:
    vpcs = {each.vpc_id for each in subnets}
    strangers = [each for each in groups if vpcs - {each.vpc_id}]
    if not subnets or not strangers:
        return ()
    first = strangers[0]
    return (
        Notice(
            "SecurityGroupSubnetVPCMismatch",
            "spec.securityGroupSelectorTerms",
            f"security group {first.id} is of {first.vpc_id}, subnets are of {', '.join(sorted(vpcs))}",
            "select security groups and subnets of one VPC; launches into others are refused",
        ),
    )


def _dependencies(draft: _Draft) -> Problem | None:
    needed = [each for each in draft.conditions.types.dependents if each != conditions.VALIDATION_SUCCEEDED]
    lacking = [each for each in needed if not draft.conditions.is_true(each)]
    if not lacking:
        return None
    said = ", ".join(lacking)
    return Problem(
        DEPENDENCIES_NOT_READY,
        f"validation waits for {said}",
        "see these conditions",
        is_verdict=any(
            (found := draft.conditions.get(each)) is not None and found.status == "False" for each in lacking
        ),
    )
