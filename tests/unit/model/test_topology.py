# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.api.meta import LabelSelector, ObjectMeta
from karpenter.model.selectors import NOTHING
from karpenter.model.topology import CountGroup, SpreadRule, TopologyRules, topology_rules

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = LabelSelector(match_labels={"app": "web"})


def pod(
    *spreads: TopologySpreadConstraint,
    near: PodAffinity | None = None,
    apart: PodAffinity | None = None,
    labels: dict[str, str] | None = None,
) -> Pod:
    affinity = Affinity(pod_affinity=near, pod_anti_affinity=apart) if near or apart else None
    return Pod(
        metadata=ObjectMeta(name="p", namespace="shop", labels=labels or {}),
        spec=PodSpec(topology_spread_constraints=spreads, affinity=affinity),
    )


def spread(key: str = ZONE, **fields: object) -> TopologySpreadConstraint:
    options = {"max_skew": 1, "label_selector": WEB, **fields}
    return TopologySpreadConstraint(topology_key=key, **options)  # type: ignore[arg-type]


def test_a_pod_that_says_nothing_has_no_rules() -> None:
    assert topology_rules(pod()) == TopologyRules()
    assert not topology_rules(pod())


def test_a_spread_constraint_has_the_defaults_of_kubernetes() -> None:
    (rule,) = topology_rules(pod(spread())).spreads

    assert (rule.max_skew, rule.min_domains, rule.hard) == (1, 1, True)
    assert (rule.honors_affinity, rule.honors_taints) == (True, False)
    assert rule.group.key == ZONE
    assert rule.group.counts("shop", {"app": "web"}, {})
    assert not rule.group.counts("other", {"app": "web"}, {})
    assert not rule.group.counts("shop", {"app": "db"}, {})


def test_every_setting_of_a_spread_constraint_is_kept() -> None:
    (rule,) = topology_rules(
        pod(
            spread(
                max_skew=3,
                min_domains=2,
                node_affinity_policy="Ignore",
                node_taints_policy="Honor",
                when_unsatisfiable="ScheduleAnyway",
            )
        )
    ).spreads

    assert rule == SpreadRule(
        rule.group, max_skew=3, min_domains=2, honors_affinity=False, honors_taints=True, hard=False
    )


def test_rules_that_must_be_kept_come_before_wishes() -> None:
    soft = spread(HOST, when_unsatisfiable="ScheduleAnyway")

    rules = topology_rules(pod(soft, spread(max_skew=2), spread(max_skew=1)))

    assert [(rule.group.key, rule.max_skew, rule.hard) for rule in rules.spreads] == [
        (ZONE, 2, True),
        (ZONE, 1, True),
        (HOST, 1, False),
    ]


def test_old_names_of_topology_keys_are_those_of_today() -> None:
    (rule,) = topology_rules(pod(spread("failure-domain.beta.kubernetes.io/zone"))).spreads

    assert rule.group.key == ZONE


def test_keys_of_the_owners_labels_narrow_a_spread() -> None:
    owner = pod(
        spread(match_label_keys=("pod-template-hash",)), labels={"app": "web", "pod-template-hash": "1"}
    )

    (rule,) = topology_rules(owner).spreads

    assert rule.group.counts("shop", {"app": "web", "pod-template-hash": "1"}, {})
    assert not rule.group.counts("shop", {"app": "web", "pod-template-hash": "2"}, {})


def test_a_spread_without_selector_counts_nothing_even_with_keys() -> None:
    owner = pod(spread(label_selector=None, match_label_keys=("app",)), labels={"app": "web"})

    (rule,) = topology_rules(owner).spreads

    assert rule.group.selector == NOTHING


def test_affinity_and_anti_affinity_are_told_apart_and_wishes_come_heaviest_first() -> None:
    def term(key: str) -> PodAffinityTerm:
        return PodAffinityTerm(topology_key=key, label_selector=WEB)

    def wishes(*pairs: tuple[int, str]) -> tuple[WeightedPodAffinityTerm, ...]:
        return tuple(WeightedPodAffinityTerm(weight=w, pod_affinity_term=term(key)) for w, key in pairs)

    rules = topology_rules(
        pod(
            near=PodAffinity(required=(term("a"),), preferred=wishes((1, "b"), (9, "c"), (9, "d"))),
            apart=PodAffinity(required=(term("e"),), preferred=wishes((2, "f"))),
        )
    )

    assert [(rule.group.key, rule.anti, rule.weight, rule.hard) for rule in rules.affinities] == [
        ("a", False, None, True),
        ("c", False, 9, False),
        ("d", False, 9, False),
        ("b", False, 1, False),
        ("e", True, None, True),
        ("f", True, 2, False),
    ]
    assert rules


def test_an_affinity_term_reaches_the_namespaces_it_names_and_heeds_the_owners_keys() -> None:
    term = PodAffinityTerm(
        topology_key=HOST,
        label_selector=WEB,
        namespace_selector=LabelSelector(match_labels={"team": "x"}),
        match_label_keys=("hash",),
        mismatch_label_keys=("tenant",),
    )
    owner = pod(apart=PodAffinity(required=(term,)), labels={"hash": "1", "tenant": "t"})

    (rule,) = topology_rules(owner).affinities

    assert rule.group.counts("any", {"app": "web", "hash": "1"}, {"team": "x"})
    assert not rule.group.counts("any", {"app": "web", "hash": "1", "tenant": "t"}, {"team": "x"})
    assert not rule.group.counts("any", {"app": "web", "hash": "2"}, {"team": "x"})
    assert not rule.group.counts("shop", {"app": "web", "hash": "1"}, {})


def test_rules_that_count_the_same_pods_share_their_group() -> None:
    one = topology_rules(pod(spread(max_skew=1))).spreads[0]
    other = topology_rules(pod(spread(max_skew=5, when_unsatisfiable="ScheduleAnyway"))).spreads[0]
    near = PodAffinityTerm(topology_key=ZONE, label_selector=WEB, namespaces=("shop",))
    third = topology_rules(pod(near=PodAffinity(required=(near,)))).affinities[0]

    assert one.group == other.group == third.group
    assert len({one.group, other.group, third.group}) == 1
    assert one != other


def test_groups_can_be_met_together_and_counted_by_another_label() -> None:
    web = topology_rules(pod(spread())).spreads[0].group
    gold = LabelSelector(match_labels={"tier": "gold"})
    other = (
        topology_rules(
            pod(
                near=PodAffinity(
                    required=(PodAffinityTerm(topology_key=HOST, label_selector=gold, namespaces=("shop",)),)
                )
            )
        )
        .affinities[0]
        .group
    )

    both = CountGroup.all_of((web, other))

    assert both.key == web.key
    assert both.counts("shop", {"app": "web", "tier": "gold"}, {})
    assert not both.counts("shop", {"app": "web"}, {})
    assert both.by(HOST).key == HOST
    assert both.by(HOST).selector == both.selector
