# SPDX-License-Identifier: Apache-2.0
"""Words for single values: a constraint, a change, what a standing node lacks.

Where figures differ between pools and were blanked, the words do without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from karpenter.api.labels import HOSTNAME
from karpenter.scheduling.explanation.changes import POD
from karpenter.scheduling.explanation.lists import listed
from karpenter.scheduling.explanation.obstacles import NODE_AFFINITY
from karpenter.scheduling.reasons import Cause, Change, ChangeKind, Constraint, Fix

__all__ = ["TYPED", "describe", "describe_fix", "lacking", "on_standing"]

# A text that starts so can name the pool within: "no instance type in NodePool x offers ...".
TYPED = "no instance type"

_ABOUT_WHAT_FITS = frozenset({Cause.SOLD_OUT, Cause.LIMIT, Cause.MIN_VALUES})


def describe(constraints: Sequence[Constraint]) -> str:
    """Return a set of constraints in words, without the pools."""
    wants = [each for each in constraints if each.cause is not Cause.POOL_REQUIREMENT]
    if not wants:
        own = listed(f"{each.subject} {each.offered}" for each in constraints)
        hint = next((each.hint for each in constraints if each.hint), "")
        return f"{hint} (it asks for {own})" if hint else f"{TYPED} meets the NodePool's own {own}"
    if wants[0].cause is Cause.CONTRADICTION:
        return _contradiction(wants)
    overall = [each for each in wants if each.cause in _ABOUT_WHAT_FITS]
    if len(overall) == 1:
        # Its words speak of "what fits", and that is what the others leave.
        wants = overall
    if len(wants) > 1:
        return f"{TYPED} meets {listed(_brief(each) for each in wants)} together"
    return _with_hint(_ALONE.get(wants[0].cause, _plain)(wants[0]), wants)


def on_standing(obstacle: Constraint, number: int) -> str:
    """Return in words what some standing nodes lack."""
    subject = obstacle.subject
    words = {
        Cause.TAINT: f"with taint {_untainted(subject)}",
        Cause.REQUIREMENT: f"without the {subject} it wants",
        Cause.VOLUME_REACH: "out of reach of its volumes",
        Cause.RESOURCES: f"without enough {subject}",
        Cause.HOST_PORT: f"with host port {subject} taken",
        Cause.ATTACH_LIMIT: f"with no more volumes of {subject}",
        Cause.SPREAD: f"in a {_name(subject)} full for its spread",
        Cause.AFFINITY: f"in a {_name(subject)} without the pods it must stand with",
        Cause.ANTI_AFFINITY: f"in a {_name(subject)} with pods it must stand apart from",
    }.get(obstacle.cause, "with room left")
    return f"{number} {words}"


def lacking(constraint: Constraint) -> str:
    """Return in words what one offering fails."""
    if constraint.cause is Cause.RESOURCES:
        if not constraint.offered:
            return f"has no {constraint.subject}"
        return f"has {constraint.offered} of {constraint.subject} {constraint.wanted}"
    if constraint.cause is Cause.SOLD_OUT:
        return "is sold out"
    return describe((replace(constraint, hint=""),))


def describe_fix(fix: Fix) -> str:
    """Return a fix in words, as something to do."""
    words = (_CHANGES[each.kind](each) + (f" ({each.note})" if each.note else "") for each in fix.changes)
    return listed(words)


def _with_hint(text: str, constraints: Sequence[Constraint]) -> str:
    hint = next((each.hint for each in constraints if each.hint), "")
    return f"{text}; {hint}" if hint else text


def _contradiction(conditions: Sequence[Constraint]) -> str:
    subject = conditions[0].subject
    if subject == NODE_AFFINITY:
        return _with_hint("the pod's node affinity has no term that a node can meet", conditions)
    said = listed(f"{each.wanted} ({each.offered})" for each in conditions)
    return _with_hint(f"the pod contradicts itself: {subject} {said}", conditions)


def _taint(constraint: Constraint) -> str:
    return f"taint {_untainted(constraint.subject)} is not tolerated"


def _requirement(constraint: Constraint) -> str:
    if constraint.subject == NODE_AFFINITY:
        return f"no node meets {constraint.wanted} of the pod's node affinity"
    if constraint.hint:
        return f"the pod wants {constraint.subject} {constraint.wanted}"
    offered = constraint.offered or "does not match"
    return f"{constraint.subject} {offered}, the pod wants {constraint.wanted}"


def _undefined(constraint: Constraint) -> str:
    wants = "" if constraint.hint else f", the pod wants {constraint.wanted}"
    return f'no node has the label "{constraint.subject}"{wants}'


def _volumes(constraint: Constraint) -> str:
    nodes = f", its nodes are in {constraint.offered}" if constraint.offered else ""
    return f"the pod's volumes are in {constraint.wanted}{nodes}"


def _resources(constraint: Constraint) -> str:
    if not constraint.offered:
        return f"{TYPED} offers {constraint.subject}"
    daemons = f" ({constraint.fact('daemons')} for DaemonSets)" if constraint.fact("daemons") else ""
    has = f"{constraint.subject} {constraint.wanted}{daemons}"
    return f"{TYPED} has {has}, the largest has {constraint.offered}"


def _host_port(constraint: Constraint) -> str:
    return f"host port {constraint.subject} is taken by a DaemonSet"


def _sold_out(constraint: Constraint) -> str:
    return "every offering that fits is sold out" + (f" ({constraint.wanted})" if constraint.wanted else "")


def _limit(constraint: Constraint) -> str:
    if not constraint.facts:
        return f"limit {constraint.subject} is used up"
    limit = f"limit {constraint.subject} {constraint.fact('limit')}"
    needed = f"the smallest type that fits has {constraint.fact('needed')}"
    if constraint.fact("in use") == "0":
        return f"{limit} is too low" + ("" if constraint.subject == "nodes" else f", {needed}")
    figures = f"{constraint.fact('in use')} in use"
    return f"{limit} is used up ({figures if constraint.subject == 'nodes' else f'{figures}, {needed}'})"


def _min_values(constraint: Constraint) -> str:
    if not constraint.offered:
        return f"minValues of {constraint.subject} cannot be kept"
    return f"minValues {constraint.wanted} of {constraint.subject} cannot be kept, {constraint.offered} fit"


def _spread(constraint: Constraint) -> str:
    counts = ", ".join(f"{count} in {place}" for place, count in constraint.facts)
    return f"spread over {constraint.subject} ({constraint.wanted}) leaves no place" + (
        f": {counts}" if counts else ""
    )


def _affinity(constraint: Constraint) -> str:
    if constraint.wanted == "nothing":
        return f"its affinity by {_name(constraint.subject)} selects no pod at all"
    if constraint.fact("elsewhere"):
        return f"pods that match {constraint.wanted} are only on nodes without the label {constraint.subject}"
    if not constraint.offered:
        return f"no pod matches {constraint.wanted}, with which it must share a {_name(constraint.subject)}"
    if constraint.subject == HOSTNAME:
        return f"pods that match {constraint.wanted} are on {constraint.offered}, and none takes it"
    return f"pods that match {constraint.wanted} stand only in {constraint.offered}"


def _anti_affinity(constraint: Constraint) -> str:
    others = f"match {constraint.wanted}" if constraint.wanted else "keep away from it"
    where = f" ({constraint.offered})" if constraint.offered else ""
    return f"pods that {others} stand in every {_name(constraint.subject)} open to it{where}"


def _plain(constraint: Constraint) -> str:
    return constraint.wanted or f"{constraint.subject} leave no place"


_ALONE: dict[Cause, Callable[[Constraint], str]] = {
    Cause.UNREADABLE: lambda constraint: f"the pod cannot be read: {constraint.wanted}",
    Cause.NO_POOLS: lambda _: "there is no NodePool that is ready",
    Cause.TAINT: _taint,
    Cause.REQUIREMENT: _requirement,
    Cause.UNDEFINED_LABEL: _undefined,
    Cause.VOLUME_REACH: _volumes,
    Cause.RESOURCES: _resources,
    Cause.HOST_PORT: _host_port,
    Cause.NO_TYPES: lambda _: f"{TYPED} is known for its node class",
    Cause.SOLD_OUT: _sold_out,
    Cause.LIMIT: _limit,
    Cause.MIN_VALUES: _min_values,
    Cause.SPREAD: _spread,
    Cause.AFFINITY: _affinity,
    Cause.ANTI_AFFINITY: _anti_affinity,
    Cause.UNDECIDED: lambda _: "a place is open, it is tried again next time",
}


def _brief(constraint: Constraint) -> str:
    """Return a constraint as one of several things to meet."""
    subject, wanted = constraint.subject, constraint.wanted
    return {
        Cause.VOLUME_REACH: f"its volumes' {wanted}",
        Cause.HOST_PORT: f"a free host port {subject}",
        Cause.SOLD_OUT: "what is not sold out",
        Cause.LIMIT: f"limit {subject} ({constraint.offered} left)",
        Cause.MIN_VALUES: f"minValues of {subject}",
        Cause.SPREAD: f"its spread over {subject}",
        Cause.AFFINITY: f"its affinity to {wanted}",
        Cause.ANTI_AFFINITY: f"its anti-affinity to {wanted}" if wanted else "the anti-affinity of others",
    }.get(constraint.cause, f"{subject} {wanted}".strip())


def _untainted(subject: str) -> str:
    return subject.rpartition(":")[0] or subject


def _name(key: str) -> str:
    """Return what people call a place: zone, hostname."""
    return key.rpartition("/")[2]


def _last(change: Change) -> str:
    return str(change.path[-1])


def _owner(change: Change) -> str:
    return "the pod" if change.object == POD else change.object


def _instead(change: Change) -> str:
    return f"write {change.after} instead of {change.before} in {_owner(change)}"


def _allow(change: Change) -> str:
    if not change.after:
        return f"drop {change.before} from {change.object}"
    return f"allow {change.after} in {change.object}"


def _soften(change: Change) -> str:
    if change.before.startswith("required"):
        return f"make the pod's {change.path[-1]} a preference ({change.before.removeprefix('required: ')})"
    return f"set {change.field} of the pod to {change.after}"


_CHANGES: dict[ChangeKind, Callable[[Change], str]] = {
    ChangeKind.CORRECT_REQUEST: lambda change: (
        f'write {_last(change)} "{change.after}" instead of "{change.before}"'
    ),
    ChangeKind.RENAME_LABEL: _instead,
    ChangeKind.CORRECT_VALUE: _instead,
    ChangeKind.RAISE_LIMIT: lambda change: (
        f"raise limits.{_last(change)} of {change.object} to {change.after}"
    ),
    ChangeKind.ADD_TOLERATION: lambda change: f"let the pod tolerate {change.after}",
    ChangeKind.ALLOW_IN_POOL: _allow,
    ChangeKind.LOWER_MIN_VALUES: lambda change: (
        f"lower minValues of {_last(change)} in {change.object} to {change.after}"
    ),
    ChangeKind.LOWER_REQUEST: lambda change: (
        f"lower the pod's {_last(change)} request from {change.before} to {change.after}"
    ),
    ChangeKind.RAISE_MAX_SKEW: lambda change: f"raise {change.field} of the pod to {change.after}",
    ChangeKind.DROP_REQUEST: lambda change: f"drop {_last(change)} from what the pod asks for",
    ChangeKind.DROP_REQUIREMENT: lambda change: f"drop {change.before} from the pod",
    ChangeKind.DROP_HOST_PORT: lambda change: f"drop host port {change.before} from the pod",
    ChangeKind.SOFTEN_RULE: _soften,
}
