# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.scheduler import Cluster, Decider, Placed, PodInfo, Refused
from karpenter.sandbox.scheduler.matching import (
    Requirement,
    Wire,
    node_term_matches,
    read_selector,
    tolerates,
)
from tests.unit.sandbox.scheduler.builders import ZONE, anti, cluster, node, pod, spread

NEVER = {"preemptionPolicy": "Never"}
UNHELPFUL = "Preemption is not helpful for scheduling"


def _words(found: Cluster, asked: PodInfo, *, minor: int = 33) -> str:
    decision = Decider(found, minor=minor).decide(asked)
    assert isinstance(decision, Refused)
    return decision.message


def _goes(found: Cluster, asked: PodInfo) -> str:
    decision = Decider(found).decide(asked)
    assert isinstance(decision, Placed), decision
    return decision.node


def _refusal(found: Cluster, asked: PodInfo) -> str:
    """Gives the first part of a refusal, without what is said about preemption."""
    return _words(found, asked).partition(" preemption:")[0]


def test_reasons_are_counted_and_sorted_as_text() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    found = cluster([node("n0", cpu="1"), node("n1", taints=[taint]), node("n2", taints=[taint])])

    words = _words(found, pod(cpu="2"))

    assert words == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {team: a}. "
        f"preemption: 0/3 nodes are available: 3 {UNHELPFUL}."
    )


def test_newer_kubernetes_words_taints_otherwise_and_speaks_of_devices() -> None:
    found = cluster([node(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])])

    words = _words(found, pod(), minor=34)

    assert words == (
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, "
        f"preemption: 0/1 nodes are available: 1 {UNHELPFUL}."
    )


def test_without_nodes_there_is_nothing_to_count() -> None:
    assert _words(Cluster(), pod()) == "no nodes available to schedule pods"


def test_a_pod_that_never_preempts_is_told_so() -> None:
    found = cluster([node(cpu="1")])

    assert _words(found, pod(cpu="2", **NEVER)).endswith(
        "preemption: not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.parametrize(
    ("standing", "asked", "reason"),
    [
        ({"unschedulable": True}, {}, "node(s) were unschedulable"),
        ({}, {"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector"),
        ({"pods": "0"}, {}, "Too many pods"),
        ({}, {"requests": {"example.com/gpu": "1"}}, "Insufficient example.com/gpu"),
        ({}, {"requests": {"memory": "17Gi"}}, "Insufficient memory"),
    ],
)
def test_a_node_that_does_not_suit_says_why(
    standing: dict[str, Any], asked: dict[str, Any], reason: str
) -> None:
    assert _refusal(cluster([node(**standing)]), pod(**asked)) == f"0/1 nodes are available: 1 {reason}."


def test_init_containers_and_sidecars_and_overhead_count_as_kubernetes_counts_them() -> None:
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    first = {"resources": {"requests": {"cpu": "2"}}}

    asked = pod(cpu="1", initContainers=[sidecar, first], overhead={"cpu": "250m"})

    assert asked.shape.requests["cpu"] == 3250


def test_host_ports_clash_unless_their_addresses_differ() -> None:
    def with_port(name: str, address: str = "", **options: Any) -> PodInfo:
        port = {"hostPort": 80, **({"hostIP": address} if address else {})}
        return pod(name, containers=[{"ports": [port]}], **options)

    found = cluster([node()], [with_port("a", "10.0.0.1", on="n0")])

    assert "free ports" in _refusal(found, with_port("b"))
    assert _goes(found, with_port("c", "10.0.0.2")) == "n0"


def test_anti_affinity_holds_in_both_directions() -> None:
    found = cluster([node()], [pod("a", on="n0", affinity=anti())])

    assert _refusal(found, pod("b")).endswith("1 node(s) didn't satisfy existing pods anti-affinity rules.")
    found = cluster([node()], [pod("a", on="n0")])
    assert _refusal(found, pod("b", affinity=anti())).endswith(
        "1 node(s) didn't match pod anti-affinity rules."
    )


def test_rules_reach_other_namespaces_only_when_they_say_so() -> None:
    found = cluster([node()], [pod("a", on="n0", namespace="shop")])
    found.set_namespace("shop", {"team": "x"})

    assert _goes(found, pod("b", affinity=anti())) == "n0"
    by_name = anti(namespaces=["shop"])
    assert isinstance(Decider(found).decide(pod("c", affinity=by_name)), Refused)
    by_label = anti(namespaceSelector={"matchLabels": {"team": "x"}})
    assert isinstance(Decider(found).decide(pod("d", affinity=by_label)), Refused)
    found.set_namespace("shop", {"team": "y"})
    assert _goes(found, pod("e", affinity=by_label)) == "n0"


def test_the_first_of_a_group_that_wants_company_may_go_anywhere() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = cluster([node("n0", zone="a"), node("n1", zone="b")])

    place = _goes(found, pod("a", affinity=near))
    found.set_pod(pod("a", affinity=near, on=place))

    assert _goes(found, pod("b", affinity=near)) == place
    stranger = pod("c", app="other", affinity=near)
    assert _goes(found, stranger) == place
    assert _refusal(cluster([node()]), pod("d", app="x", affinity=near)).endswith(
        "didn't match pod affinity rules."
    )


def test_match_label_keys_narrow_a_term_to_the_owners_own_value() -> None:
    affinity = anti("web", matchLabelKeys=["app"])
    term = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    term["labelSelector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    found = cluster([node()], [pod("a", on="n0", app="other")])

    assert _goes(found, pod("b", affinity=affinity)) == "n0"


def test_a_hard_spread_keeps_zones_level() -> None:
    rules = {"topologySpreadConstraints": spread()}
    found = cluster([node("n0", zone="a"), node("n1", zone="b")], [pod("a", on="n0")])

    assert _goes(found, pod("b", **rules)) == "n1"
    found = cluster([node("n0", zone="a"), node("n1", zone="b", cpu="0")], [pod("a", on="n0")])
    assert "1 node(s) didn't match pod topology spread constraints" in _refusal(found, pod("b", **rules))


def test_spread_policies_decide_which_nodes_count() -> None:
    taint = {"key": "team", "effect": "NoSchedule"}
    nodes = [node("n0", zone="a"), node("n1", zone="b", taints=[taint])]

    ignoring = {"topologySpreadConstraints": spread()}
    honoring = {"topologySpreadConstraints": spread(nodeTaintsPolicy="Honor")}

    assert isinstance(Decider(cluster(nodes, [pod("a", on="n0")])).decide(pod("b", **ignoring)), Refused)
    assert _goes(cluster(nodes, [pod("a", on="n0")]), pod("b", **honoring)) == "n0"


def test_too_few_domains_count_as_one_more_that_is_empty() -> None:
    rules = {"topologySpreadConstraints": spread(minDomains=2)}
    found = cluster([node("n0")], [pod("a", on="n0")])

    assert "topology spread" in _refusal(found, pod("b", **rules))


def test_a_node_without_the_key_of_a_spread_is_refused_for_that() -> None:
    bare = node("n0")
    del bare["metadata"]["labels"][ZONE]

    words = _refusal(cluster([bare]), pod(topologySpreadConstraints=spread()))

    assert words.endswith("1 node(s) didn't match pod topology spread constraints (missing required label).")


def _named(*names: str) -> Wire:
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = [{"matchFields": [field]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_a_pod_that_names_its_node_is_asked_of_that_node_alone() -> None:
    found = cluster([node("n0"), node("n1", cpu="0"), node("n2")])

    assert _goes(found, pod(affinity=_named("n2"))) == "n2"
    words = _words(found, pod("b", affinity=_named("n1")))
    assert words.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_the_nominated_node_is_asked_first_and_promised_room_is_kept() -> None:
    found = cluster([node("n0", cpu="1"), node("n1", cpu="8")])
    promised = pod("a", nominated="n0")
    found.promise(promised)

    assert _goes(found, promised) == "n0"
    small = cluster([node("n0", cpu="1")])
    small.promise(pod("a", nominated="n0"))
    assert isinstance(Decider(small).decide(pod("b")), Refused)
    assert _goes(small, pod("c", priority=5)) == "n0"


def test_less_important_pods_make_room_as_few_and_as_unimportant_as_possible() -> None:
    found = cluster(
        [node("n0", cpu="2"), node("n1", cpu="2")],
        [
            pod("a", on="n0", priority=5),
            pod("b", on="n0", priority=1),
            pod("c", on="n1", priority=2),
            pod("d", on="n1", priority=2),
        ],
    )

    decision = Decider(found).decide(pod("vip", priority=10))

    assert isinstance(decision, Refused)
    assert decision.room is not None
    assert decision.room.node.name == "n0"
    assert [each.name for each in decision.room.victims] == ["b"]
    assert decision.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_budget_turns_preemption_to_another_node() -> None:
    found = cluster(
        [node("n0", cpu="1"), node("n1", cpu="1")],
        [pod("a", on="n0", priority=1, app="guarded"), pod("b", on="n1", priority=2)],
    )
    budget = {"spec": {"selector": {"matchLabels": {"app": "guarded"}}}, "status": {"disruptionsAllowed": 0}}
    found.budgets["default", "b"] = budget

    decision = Decider(found).decide(pod("vip", priority=10))

    assert isinstance(decision, Refused)
    assert decision.room is not None
    assert [each.name for each in decision.room.victims] == ["b"]


def test_equal_pods_are_never_preempted() -> None:
    found = cluster([node(cpu="1")], [pod("a", on="n0")])

    assert _words(found, pod("b")).endswith("1 No preemption victims found for incoming pod.")


def test_roomy_nodes_and_wishes_decide_between_nodes_that_fit() -> None:
    found = cluster([node("n0"), node("n1")], [pod("a", on="n0", cpu="3")])
    assert _goes(found, pod("b")) == "n1"

    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    found = cluster([node("n0", disk="ssd"), node("n1")], [pod("a", on="n0")])
    assert _goes(found, pod("c", affinity={"nodeAffinity": wish})) == "n0"

    discouraging = {"key": "x", "effect": "PreferNoSchedule"}
    found = cluster([node("n0", taints=[discouraging]), node("n1")], [pod("a", on="n1")])
    assert _goes(found, pod("d")) == "n1"


def test_soft_spread_and_soft_anti_affinity_pull_pods_apart() -> None:
    soft = {"topologySpreadConstraints": spread(whenUnsatisfiable="ScheduleAnyway")}
    nodes = [node("n0", zone="a"), node("n1", zone="b", cpu="3")]
    assert _goes(cluster(nodes, [pod("a", on="n0", cpu="0")]), pod("b", **soft)) == "n1"

    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    found = cluster(nodes, [pod("a", on="n0", cpu="0")])
    assert _goes(found, pod("c", affinity={"podAntiAffinity": wish})) == "n1"
    # And the other way round: those that stand wish the newcomer away.
    found = cluster(nodes, [pod("a", on="n0", cpu="0", affinity={"podAntiAffinity": wish})])
    assert _goes(found, pod("d")) == "n1"


def test_pods_that_come_before_their_node_count_when_it_comes() -> None:
    found = Cluster()
    found.set_pod(pod("a", on="n0", cpu="4"))

    found.set_node(node("n0"))

    assert isinstance(Decider(found).decide(pod("b")), Refused)
    found.drop_node("n0")
    found.set_node(node("n0"))
    assert isinstance(Decider(found).decide(pod("c")), Refused)


def test_a_pod_that_ends_gives_its_room_back() -> None:
    found = cluster([node(cpu="1")])
    standing = pod("a", on="n0")
    found.set_pod(standing)
    assert isinstance(Decider(found).decide(pod("b")), Refused)

    ended = pod("a", on="n0", status={"phase": "Succeeded"})
    ended.uid = standing.uid
    found.set_pod(ended)

    assert _goes(found, pod("c")) == "n0"


@pytest.mark.parametrize(
    ("operator", "values", "labels", "holds"),
    [
        ("In", ["a"], {"k": "a"}, True),
        ("NotIn", ["a"], {}, True),
        ("Exists", [], {}, False),
        ("DoesNotExist", [], {}, True),
        ("Gt", ["3"], {"k": "4"}, True),
        ("Lt", ["3"], {"k": "4"}, False),
        ("Gt", ["x"], {"k": "4"}, False),
        ("Gt", ["3"], {}, False),
        ("Near", ["a"], {"k": "a"}, False),
    ],
)
def test_operators_mean_what_kubernetes_means(
    operator: str, values: list[str], labels: dict[str, str], *, holds: bool
) -> None:
    assert Requirement("k", operator, frozenset(values)).holds(labels) is holds


def test_absent_selectors_select_nothing_and_empty_ones_everything() -> None:
    assert not read_selector(None).matches({"a": "b"})
    assert read_selector({}).matches({})
    assert not node_term_matches({}, "n0", {})


@pytest.mark.parametrize(
    ("toleration", "bears"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations_bear_what_they_name(toleration: Wire, *, bears: bool) -> None:
    assert tolerates([toleration], {"key": "team", "value": "a", "effect": "NoSchedule"}) is bears
