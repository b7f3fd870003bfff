# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from msgspec import structs

from karpenter.api.core import Pod, Toleration
from karpenter.api.core.policy import PodDisruptionBudget
from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.api.meta import Condition, LabelSelector, LabelSelectorRequirement
from karpenter.consolidation import VerdictKind
from karpenter.consolidation.protection import Obstacle, Protection
from tests.strategies.pods import NOON, daemon, daemon_on
from tests.unit.consolidation.world import NOW, Setting, holding, pdb, replica


def obstacle(*pods: Pod, pdbs: tuple[PodDisruptionBudget, ...] = ()) -> Obstacle | None:
    return Protection(pdbs, NOW).obstacle(pods)


def started(pod: Pod) -> Pod:
    return structs.replace(pod, status=structs.replace(pod.status, start_time=NOON))


def protected(name: str = "p", text: str = "true") -> Pod:
    return replica(name, "a", annotations={DO_NOT_DISRUPT: text})


def test_a_pod_that_says_nothing_holds_nothing() -> None:
    assert obstacle(replica("p", "a")) is None


def test_do_not_disrupt_holds() -> None:
    assert obstacle(replica("o", "a"), protected()) == Obstacle(VerdictKind.POD_PROTECTED, "default/p")


def test_do_not_disrupt_for_a_while_holds_for_a_while() -> None:
    found = obstacle(started(protected(text="10m")))

    assert found == Obstacle(VerdictKind.POD_PROTECTED, "default/p", until=NOW + 600)
    assert Protection((), NOW + 600).obstacle([started(protected(text="10m"))]) is None


def test_the_first_by_name_is_told() -> None:
    found = obstacle(protected("z"), protected("b"), protected("k"))

    assert found is not None
    assert found.pod == "default/b"


def test_a_pod_on_its_way_out_holds_nothing() -> None:
    assert obstacle(replica("p", "a", annotations={DO_NOT_DISRUPT: "true"}, terminating=True)) is None


def test_a_daemon_pod_can_hold_its_node_too() -> None:
    one = daemon_on(daemon("d"), "a")
    pod = structs.replace(one, metadata=structs.replace(one.metadata, annotations={DO_NOT_DISRUPT: "true"}))

    assert obstacle(pod) is not None


def test_a_budget_that_allows_nothing_holds() -> None:
    assert obstacle(replica("p", "a"), pdbs=(pdb(),)) == Obstacle(
        VerdictKind.PDB, "default/p", ("default/pdb",)
    )
    assert obstacle(replica("p", "a"), pdbs=(pdb(allowed=1),)) is None
    assert obstacle(replica("p", "a", namespace="shop"), pdbs=(pdb(),)) is None
    assert obstacle(replica("p", "a", of="other"), pdbs=(pdb(),)) is None


def test_two_budgets_on_a_pod_hold_even_if_both_allow() -> None:
    found = obstacle(replica("p", "a"), pdbs=(pdb("two", allowed=1), pdb("one", allowed=1)))

    assert found == Obstacle(VerdictKind.SEVERAL_PDBS, "default/p", ("default/one", "default/two"))


def saying(key: str, operator: str, *values: str) -> LabelSelector:
    said = LabelSelectorRequirement(key=key, operator=operator, values=values)
    return LabelSelector(match_expressions=(said,))


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (LabelSelector(), True),
        (None, False),
        (LabelSelector(match_labels={"app": "inflate", "tier": "back"}), False),
        (saying("app", "In", "inflate", "x"), True),
        (saying("app", "NotIn", "inflate"), False),
        (saying("tier", "DoesNotExist"), True),
        (saying("app", "Exists"), True),
    ],
)
def test_a_budget_holds_whom_it_selects_in_whatever_words(
    selector: LabelSelector | None, *, holds: bool
) -> None:
    made = pdb()
    budget = structs.replace(made, spec=structs.replace(made.spec, selector=selector))

    found = obstacle(replica("p", "a"), pdbs=(pdb("other", app="other"), budget))

    assert (found is not None) is holds


def test_budgets_that_select_in_different_words_are_told_in_the_order_of_their_names() -> None:
    made = pdb("a-last-found")
    everything = structs.replace(made, spec=structs.replace(made.spec, selector=LabelSelector()))

    found = obstacle(replica("p", "a"), pdbs=(pdb("b"), everything, pdb("a")))

    assert found is not None
    assert found.pdbs == ("default/a", "default/a-last-found", "default/b")


def test_an_unhealthy_pod_passes_a_budget_that_always_allows_those() -> None:
    always = pdb(unhealthy_pod_eviction_policy="AlwaysAllow")
    ill = replica("p", "a")
    ready = (*ill.status.conditions, Condition(type="Ready", status="True"))
    well = structs.replace(ill, status=structs.replace(ill.status, conditions=ready))

    assert obstacle(ill, pdbs=(always,)) is None
    assert obstacle(well, pdbs=(always,)) is not None


def test_pods_that_are_never_evicted_pass_every_budget() -> None:
    tolerant = replica("p", "a", tolerations=(Toleration(operator="Exists"),))
    mirror = replica("p", "a", annotations={"kubernetes.io/config.mirror": "x"})

    assert obstacle(tolerant, pdbs=(pdb(),)) is None
    assert obstacle(mirror, pdbs=(pdb(),)) is None


def told(*pods: Pod, pdbs: tuple[PodDisruptionBudget, ...] = ()) -> tuple[VerdictKind, str, dict[str, str]]:
    world = Setting((replace(holding("a"), pods=pods),), pdbs=pdbs)
    verdict = world.blocked().verdicts["a"]
    return verdict.kind, verdict.words, dict(verdict.values)


def test_verdicts_name_what_holds_a_node() -> None:
    assert told(protected()) == (
        VerdictKind.POD_PROTECTED,
        "a stays: pod default/p is not to be disrupted",
        {"pod": "default/p"},
    )
    assert told(started(protected(text="10m"))) == (
        VerdictKind.POD_PROTECTED,
        "a stays: pod default/p is not to be disrupted before 2026-01-01T12:10:00Z",
        {"pod": "default/p", "until": "2026-01-01T12:10:00Z"},
    )
    assert told(replica("p", "a"), pdbs=(pdb(),)) == (
        VerdictKind.PDB,
        "a stays: PodDisruptionBudget default/pdb allows no eviction of pod default/p now",
        {"pod": "default/p", "pdb": "default/pdb"},
    )
    assert told(replica("p", "a"), pdbs=(pdb("x"), pdb("y"))) == (
        VerdictKind.SEVERAL_PDBS,
        "a stays: pod default/p cannot be evicted, since PodDisruptionBudgets default/x and default/y both select it",
        {"pod": "default/p", "pdb": "default/x, default/y"},
    )
