# SPDX-License-Identifier: Apache-2.0
"""Consolidation: nodes whose pods have room elsewhere, or on something cheaper, go if that pays.

The whole cluster is searched for a cheaper arrangement (``search``), as far as budgets let it be carried out now; on
top of that nodes are tried one by one, in the order of what they cost for what taking them disturbs, as Karpenter:
without any replacement, and then with one. Whatever was settled before holds for the next. In a small cluster the
latter alone is tried as well, and the better of both counts: by what it gains in the end, for a plan that budgets
stretch over several rounds is only worth what was hoped if it is followed.

Every stage is what the solver itself says, so every constraint that scheduling knows holds; where it disagrees with
the search, it has the last word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.launches import Unfit, narrowed, price_of
from karpenter.consolidation.method import Finding, stage_of, stand_for
from karpenter.consolidation.payback import Scales, terms_of
from karpenter.consolidation.rearranging import chunks_of, rearranged
from karpenter.consolidation.stand import Stand, Trial, together
from karpenter.consolidation.types import Policy, Rearrangement, Reason, Stage, Verdict, VerdictKind
from karpenter.consolidation.verdicts import dollars, held
from karpenter.scheduling import NewNode

__all__ = ["Judge", "find_underused", "ineligible", "quiet_stand"]

# How many nodes may be tried one by one, times the nodes that each try looks at: a few seconds' worth.
_WORK: Final = 100_000
_LEAST_TRIES: Final = 10
# Up to so many nodes both ways are gone.
_FEW: Final = 60


def find_underused(ground: Ground) -> Finding:
    """Return the stages that make the cluster cheaper, and why other nodes stay."""
    verdicts: dict[str, Verdict] = {}
    eligible = []
    for site in ground.sites.values():
        refusal = ineligible(ground, site)
        if refusal is None and site.is_empty:
            refusal = site.says(VerdictKind.WAITS, "it is empty, and emptiness decides on it")
        if refusal is None and not ground.quota.has_room(site.pool, Reason.UNDERUTILIZED):
            # As long as others are on their way out there is nothing to search for.
            refusal = ground.budget_verdict(site, Reason.UNDERUTILIZED)
        if refusal is None:
            eligible.append(site)
        else:
            verdicts[site.name] = refusal
    if not eligible:
        return Finding(Reason.UNDERUTILIZED, (), verdicts)
    eligible.sort(key=lambda site: (-(site.price or 0.0) / site.disruption, site.name))
    stand = quiet_stand(ground)
    attempts = []
    if ground.situation.plan is not None:
        attempts.append(_Attempt(ground, stand).with_search(eligible, ground.situation.plan))
    if ground.settings.search:
        attempts.append(_Attempt(ground, stand).with_search(eligible))
    if not attempts or len(eligible) <= _FEW:
        attempts.append(_Attempt(ground, stand).one_by_one(eligible))
    best = max(attempts, key=lambda attempt: (attempt.prospect, attempt.gain))
    return Finding(Reason.UNDERUTILIZED, tuple(best.stages), {**best.verdicts, **verdicts}, best.plan)


def ineligible(ground: Ground, site: Site) -> Verdict | None:
    """Return why a node is not consolidated, whatever that would save; None if it may be."""
    if site.is_static:
        return site.says(VerdictKind.STATIC, f"NodePool {site.pool} keeps {site.policy.replicas} nodes")
    if site.policy.policy is Policy.WHEN_EMPTY and not site.is_empty:
        return site.says(VerdictKind.POLICY, f"NodePool {site.pool} gives up empty nodes only")
    refusal = ground.unquiet_verdict(site)
    if refusal is None and site.obstacle is not None:
        refusal = held(site.name, site.obstacle, site.price)
    if refusal is None and site.price is None:
        listed = ground.prices.listed(site.view)
        words = "its price is not known"
        if listed is not None:
            words = f"its listed price of {listed} $ per hour is not to be believed"
        refusal = site.says(VerdictKind.NO_PRICE, words)
    return refusal


def quiet_stand(ground: Ground, open_for_all: Collection[str] = ()) -> Stand:
    """Return the cluster to try things on: no node takes moved pods where pods came or went lately.

    Args:
        ground: What is known.
        open_for_all: Nodes that take them all the same: those that were bought for them.
    """
    unquiet = [
        site.name
        for site in ground.sites.values()
        if site.quiet_at is not None and ground.now < site.quiet_at and site.name not in open_for_all
    ]
    return stand_for(ground, unquiet, for_money=True)


class Judge:
    """Says whether trials pay.

    Attributes:
        scales: What weighs what they disturb.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.scales = Scales(ground)

    def judge(self, trial: Trial, sites: list[Site], *, may_buy: bool) -> Stage | Verdict:
        """Return the stage that carries a trial out if it can be done and pays, or why not."""
        if trial.problem is not None:
            return sites[0].says(trial.problem, trial.words)
        launch = trial.launch
        if launch and not may_buy:
            return sites[0].says(VerdictKind.NOT_CHEAPER, "its pods have no room on other nodes")
        terms = terms_of(sites, self._ground)
        refusal = self._unpaid(sites, terms.price - price_of(launch), terms.wanted(price_of(launch)))
        if refusal is not None:
            return refusal
        from_spot = all(site.is_spot for site in sites)
        cheap = narrowed(launch, terms.most_for_launches, self._ground.settings, from_spot=from_spot)
        if isinstance(cheap, Unfit):
            return sites[0].says(cheap.kind, cheap.words)
        stage = stage_of(trial, sites, cheap)
        return replace(stage, scores=self.scales.scores(sites, stage.saving_per_hour))

    def _unpaid(self, sites: list[Site], saving: float, wanted: float) -> Verdict | None:
        """Return why a saving is too small; None if it is not."""
        if saving <= 0:
            return sites[0].says(VerdictKind.NOT_CHEAPER, "nothing cheaper would hold its pods")
        if saving < wanted:
            words = (
                f"taking it would save {dollars(saving)} per hour, and moving its pods is worth it from"
                f" {dollars(wanted)} per hour on"
            )
            values = {"saving_per_hour": f"{saving:.6f}", "wanted_per_hour": f"{wanted:.6f}"}
            return sites[0].says(VerdictKind.SAVING, words, **values)
        refused = self.scales.refused(sites, saving)
        if refused is not None:
            pool, score = refused
            words = f"by the policy Balanced of NodePool {pool} it would disturb too much for what it saves"
            return sites[0].says(VerdictKind.BALANCED, f"{words} ({score:.2f})", score=f"{score:.4f}")
        return None


class _Attempt:
    """One way to a cheaper cluster, with budgets of its own to use up."""

    def __init__(self, ground: Ground, stand: Stand) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.stages: list[Stage] = []
        self.gain = 0.0
        # Of a plan of which budgets let only the beginning be done now: what comes later, and what it all gains.
        self.plan: Rearrangement | None = None
        self._whole_gain = 0.0
        self._waits = False
        self._ground = ground
        self._stand = stand
        self._quota = ground.quota.copy()
        self._judge = Judge(ground)
        share = _WORK // max(1, len(ground.snapshot.nodes))
        self._tries = min(ground.settings.tries, max(_LEAST_TRIES, share))
        self._trials: dict[str, tuple[Stand, Trial]] = {}
        # A pod moves at most once: who takes pods stays.
        self._receiving: set[str] = set()

    @property
    def prospect(self) -> float:
        """What this way gains per hour in the end; nothing if it leads nowhere."""
        return max(self.gain, self._whole_gain) if self.stages or self._waits else 0.0

    def with_search(self, eligible: list[Site], plan: Rearrangement | None = None) -> _Attempt:
        """Take what a search of the whole cluster finds, or a plan has left, as far as each part pays.

        Then node by node, unless something is left for later: it needs the room.
        """
        found = rearranged(self._ground, self._quota, self._stand, eligible, plan)
        self.plan, self._whole_gain = found.plan, found.whole_gain
        self._waits = found.plan is not None and not found.parts
        plain, special = self._stand.parted(found.parts)
        self._stand = self._stand.after(*self._accepted(plain))
        # Room is there for certain. But rules about other pods may count those of nodes that have not gone yet, so
        # each part is looked at by itself, or several together where there are too many.
        chunks = chunks_of(special, self._tries)
        for number, chunk in enumerate(chunks):
            later = {name for each in chunks[number + 1 :] for name in each.remove}
            self._tries -= 1
            stand = self._stand.closing(later)
            trial = stand.attempt_with(chunk.remove, chunk.launch, chunk.moves)
            if trial.problem is not None:
                trial = stand.attempt_with(chunk.remove, chunk.launch)
            self._stand = self._stand.after(*self._accepted([trial]))
        if self.plan is None or not (self.stages or self._waits):
            self.plan, self._whole_gain = None, 0.0
            return self.one_by_one(eligible)
        if self.stages:
            # A plan that has come apart, because pods went elsewhere, must not keep a new search from being heard.
            self._whole_gain *= sum(len(stage.remove) for stage in self.stages) / found.asked
        for name in self.plan.remove:
            verdict = self._ground.budget_verdict(self._ground.sites[name], Reason.UNDERUTILIZED)
            self.verdicts.setdefault(name, verdict)
        return self

    def _accepted(self, trials: list[Trial]) -> tuple[Trial, tuple[NewNode, ...]]:
        """Take the trials that pay, and return them as one, with what is really bought for them."""
        taken: list[Trial] = []
        launch: list[NewNode] = []
        for trial in trials:
            sites = [self._ground.sites[name] for name in trial.remove]
            found = self._judge.judge(trial, sites, may_buy=True)
            if isinstance(found, Stage):
                self._take(trial, sites, found)
                taken.append(trial)
                launch += found.launch
        return together(taken), tuple(launch)

    def one_by_one(self, eligible: list[Site]) -> _Attempt:
        """Take nodes whose pods have room elsewhere, and then nodes for which something cheaper can be bought."""
        for may_buy in (False, True):
            for site in eligible:
                known = self.verdicts.get(site.name)
                if known is None or known.kind is not VerdictKind.GOES:
                    self._try(site, may_buy=may_buy)
        return self

    def _try(self, site: Site, *, may_buy: bool) -> None:
        if site.name in self._receiving:
            words = "it takes pods of nodes that go"
            self.verdicts[site.name] = site.says(VerdictKind.WAITS, words)
            return
        if not self._quota.has_room(site.pool, Reason.UNDERUTILIZED):
            self.verdicts[site.name] = self._ground.budget_verdict(site, Reason.UNDERUTILIZED)
            return
        trial = self._attempt(site)
        if trial is None:
            words = "no cheaper arrangement of the cluster was found"
            self.verdicts.setdefault(site.name, site.says(VerdictKind.NOT_CHEAPER, words))
            return
        found = self._judge.judge(trial, [site], may_buy=may_buy)
        if isinstance(found, Stage):
            self._take(trial, [site], found)
            self._stand = self._stand.after(trial, found.launch)
        elif may_buy and self._stand.ghosts and self._would_go_without_ghosts(site):
            self.verdicts[site.name] = site.says(
                VerdictKind.PEAK, "a workload that swings had more replicas a short while ago"
            )
        else:
            self.verdicts[site.name] = found

    def _would_go_without_ghosts(self, site: Site) -> bool:
        trial = self._stand.without_ghosts().attempt((site.name,))
        return isinstance(self._judge.judge(trial, [site], may_buy=True), Stage)

    def _attempt(self, site: Site) -> Trial | None:
        """Try to take a node, unless there were too many tries; what was tried on the same cluster is known."""
        known = self._trials.get(site.name)
        if known is not None and known[0] is self._stand:
            return known[1]
        if self._tries <= 0 or self._ground.settings.stop():
            return None
        self._tries -= 1
        trial = self._stand.attempt((site.name,))
        self._trials[site.name] = self._stand, trial
        return trial

    def _take(self, trial: Trial, sites: list[Site], stage: Stage) -> None:
        others = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        words = f"without it{others} the cluster costs {dollars(stage.saving_per_hour)} less per hour"
        for site in sites:
            self._quota.take(site.pool)
            saving = f"{stage.saving_per_hour:.6f}"
            self.verdicts[site.name] = site.says(VerdictKind.GOES, words, saving_per_hour=saving)
        self.stages.append(stage)
        self._receiving.update(each.target for each in trial.placed)
        self.gain += stage.saving_per_hour - sum(map(self._judge.scales.cost, sites))
