# SPDX-License-Identifier: Apache-2.0
"""The decision: which nodes go now, what is bought before, and for every other node why it stays.

One pure function. As Karpenter, the ways are tried in order and the first that finds something is the command: empty
nodes, drifted nodes of static pools, drifted nodes, nodes that the cluster would be cheaper without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from karpenter.consolidation.drift import find_drifted, find_drifted_static
from karpenter.consolidation.emptiness import find_empty
from karpenter.consolidation.ground import Ground
from karpenter.consolidation.launches import price_of
from karpenter.consolidation.method import Finding
from karpenter.consolidation.types import (
    Blocked,
    Command,
    Reason,
    Situation,
    Stage,
    Verdict,
    VerdictKind,
)
from karpenter.consolidation.underuse import find_underused
from karpenter.consolidation.verdicts import dollars
from karpenter.model.snapshot import Snapshot

__all__ = ["command_id", "propose"]

_WAYS: Final[tuple[Callable[[Ground], Finding], ...]] = (
    find_empty,
    find_drifted_static,
    find_drifted,
    find_underused,
)
_ID_LENGTH: Final = 16


def propose(snapshot: Snapshot, situation: Situation, now: float) -> Command | Blocked:
    """Say which nodes go now, or that none does.

    Args:
        snapshot: The cluster without the nodes on their way out.
        situation: Everything beside it.
        now: The moment, in seconds since 1970.
    """
    ground = Ground(snapshot, situation, now)
    verdicts: dict[str, Verdict] = dict(ground.barred)
    for way in _WAYS:
        finding = way(ground)
        # Whoever speaks of a node first knows best why it stays; but if it has drifted, that is what matters.
        if finding.reason is Reason.DRIFTED:
            verdicts |= finding.verdicts
        verdicts = {**finding.verdicts, **verdicts}
        if finding.stages:
            return _command(ground, finding, verdicts)
    return _blocked(ground, verdicts)


def _command(ground: Ground, finding: Finding, verdicts: dict[str, Verdict]) -> Command:
    removed = [name for stage in finding.stages for name in stage.remove]
    for name in removed:
        verdicts[name] = finding.verdicts[name]
    for name, site in ground.sites.items():
        verdicts.setdefault(name, site.says(VerdictKind.WAITS, "other nodes go first"))
    sites = [ground.sites[name] for name in removed]
    before = sum(site.price or 0.0 for site in sites)
    after = sum(price_of(stage.launch) for stage in finding.stages)
    evictions = sum(stage.evictions for stage in finding.stages)
    return Command(
        id=command_id(finding.reason, finding.stages),
        reason=finding.reason,
        stages=finding.stages,
        price_before=before,
        price_after=after,
        evictions=evictions,
        weight=sum(site.weight for site in sites) if evictions else 0.0,
        words=_words(finding, before - after, evictions),
        verdicts=dict(sorted(verdicts.items())),
        plan=finding.plan,
    )


def _words(finding: Finding, saving: float, evictions: int) -> str:
    nodes = [name for stage in finding.stages for name in stage.remove]
    bought = [each.instance_type for stage in finding.stages for each in stage.launch]
    verb = f"replace {_several(nodes)} by {_several(bought)}" if bought else f"delete {_several(nodes)}"
    money = f"saving {dollars(saving)}" if saving >= 0 else f"costing {dollars(-saving)} more"
    pods = "1 pod" if evictions == 1 else f"{evictions} pods"
    return f"{verb} ({finding.reason}), {money} per hour, moving {pods}"


def _several(names: Iterable[str]) -> str:
    found = sorted(names)
    shown = ", ".join(found[:3])
    return shown if len(found) <= 3 else f"{shown} and {len(found) - 3} more"


def _blocked(ground: Ground, verdicts: dict[str, Verdict]) -> Blocked:
    kinds: dict[VerdictKind, int] = {}
    for each in verdicts.values():
        kinds[each.kind] = kinds.get(each.kind, 0) + 1
    parts = [
        f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    ]
    words = f"no node goes: {', '.join(parts)}" if parts else "there is no node of ours"
    for pool in ground.snapshot.pools:
        doubtful = ground.prices.doubtful(pool.catalogue).bit_count()
        if doubtful:
            words += f"; {doubtful} prices that NodePool {pool.name} could buy at are not to be believed"
    moments = [site.quiet_at for site in ground.sites.values()]
    moments += [site.obstacle.until for site in ground.sites.values() if site.obstacle is not None]
    moments += [each.retry_at for each in ground.situation.candidates]
    later = [each for each in moments if each is not None and each > ground.now]
    return Blocked(words, dict(sorted(verdicts.items())), min(later, default=None))


def command_id(reason: Reason, stages: Iterable[Stage]) -> str:
    """Return a name for a command that is the same whoever computes it."""
    digest = hashlib.sha256(reason.encode())
    for stage in stages:
        bought = (
            f"{each.pool}/{each.instance_type}/{each.zone}/{each.capacity_type}" for each in stage.launch
        )
        moves = (f"{move.uid}>{move.target}{move.launch}" for move in stage.moves)
        for part in (*stage.remove, "|", *bought, "|", *moves, "||"):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:_ID_LENGTH]
