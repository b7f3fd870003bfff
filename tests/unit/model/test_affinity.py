# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
)
from karpenter.model.affinity import NodeRules, compile_term, node_rules, term_matches
from karpenter.model.requirements import NO_REQUIREMENTS, RequirementError

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions)


def named(operator: str, *values: str, key: str = "metadata.name") -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(expression(key, operator, *values),))


def pod(
    *required: NodeSelectorTerm,
    preferred: tuple[tuple[int, NodeSelectorTerm], ...] = (),
    selector: dict[str, str] | None = None,
) -> Pod:
    affinity = NodeAffinity(
        required=NodeSelector(node_selector_terms=required) if required else None,
        preferred=tuple(
            PreferredSchedulingTerm(weight=weight, preference=wish) for weight, wish in preferred
        ),
    )
    return Pod(spec=PodSpec(node_selector=selector or {}, affinity=Affinity(node_affinity=affinity)))


class TestRules:
    def test_a_pod_that_says_nothing_goes_anywhere(self) -> None:
        rules = node_rules(Pod())

        assert rules == NodeRules()
        assert rules == node_rules(Pod(spec=PodSpec(affinity=Affinity())))
        assert rules.strict == rules.preferred == NO_REQUIREMENTS
        assert rules.matches({}, "any")

    def test_a_node_selector_is_required(self) -> None:
        rules = node_rules(Pod(spec=PodSpec(node_selector={OLD_ZONE: "a"})))

        assert str(rules.strict) == f"{ZONE} In [a]"
        assert rules.matches({OLD_ZONE: "a"})
        assert not rules.matches({ZONE: "a"})

    def test_each_required_term_is_an_alternative_with_the_node_selector_in_it(self) -> None:
        rules = node_rules(
            pod(
                term(expression(ZONE, "In", "a", "b")),
                term(expression("gpu", "Exists")),
                selector={ZONE: "a"},
            )
        )

        assert [str(alternative.requirements) for alternative in rules.alternatives] == [
            f"{ZONE} In [a]",
            f"gpu Exists, {ZONE} In [a]",
        ]
        assert rules.strict == rules.alternatives[0].requirements

    def test_the_heaviest_wish_joins_the_first_alternative_and_equal_ones_keep_their_order(self) -> None:
        wishes = ((1, "light"), (7, "first"), (7, "second"))
        rules = node_rules(
            pod(
                term(expression("need", "Exists")),
                preferred=tuple((weight, term(expression(key, "Exists"))) for weight, key in wishes),
            )
        )

        assert str(rules.preferred) == "first Exists, need Exists"
        assert str(rules.strict) == "need Exists"
        assert [(wish.weight, str(wish.term.requirements)) for wish in rules.preferences] == [
            (7, "first Exists"),
            (7, "second Exists"),
            (1, "light Exists"),
        ]

    def test_wishes_that_weigh_nothing_or_say_nothing_are_left_out(self) -> None:
        rules = node_rules(pod(preferred=((0, term(expression("a", "Exists"))), (5, term()))))

        assert rules.preferences == ()
        assert rules.preferred == NO_REQUIREMENTS

    def test_an_empty_term_matches_no_node_so_it_is_no_alternative(self) -> None:
        rules = node_rules(pod(term(), term(expression("a", "Exists"))))
        hopeless = node_rules(pod(term()))

        assert [str(alternative.requirements) for alternative in rules.alternatives] == ["a Exists"]
        assert hopeless.alternatives == ()
        assert hopeless.strict is None
        assert hopeless.preferred is None
        assert not hopeless.matches({"a": "1"}, "any")

    def test_terms_that_mean_the_same_are_one_alternative(self) -> None:
        rules = node_rules(pod(term(expression("a", "In", "1")), term(expression("a", "In", "1", "1"))))

        assert len(rules.alternatives) == 1

    def test_a_term_that_cannot_be_read_is_left_out_and_told(self) -> None:
        rules = node_rules(
            pod(
                term(expression("a", "Gt", "x")),
                term(expression("b", "Exists")),
                preferred=((1, term(expression("c", "Like", "d"))),),
            )
        )

        assert [str(alternative.requirements) for alternative in rules.alternatives] == ["b Exists"]
        assert rules.preferences == ()
        assert rules.problems == (
            'a: "x" is not a number (operator Gt needs one)',
            'c: "Like" is no operator that a pod can use',
        )

    def test_rules_are_values(self) -> None:
        one, other = (node_rules(pod(term(expression("a", "In", *values)))) for values in ("12", "21"))

        assert one == other
        assert hash(one) == hash(other)


class TestNames:
    def test_a_node_can_be_named(self) -> None:
        rules = node_rules(pod(named("In", "n1"), selector={"a": "1"}))

        assert rules.matches({"a": "1"}, "n1")
        assert not rules.matches({"a": "1"}, "n2")
        assert not rules.matches({}, "n1")
        assert not rules.matches({"a": "1"})

    def test_a_node_can_be_excluded_by_name(self) -> None:
        rules = node_rules(pod(named("NotIn", "n1")))

        assert rules.matches({}, "n2")
        assert not rules.matches({}, "n1")

    def test_names_of_both_sides_must_hold(self) -> None:
        one, other = compile_term(named("In", "n1")), compile_term(named("NotIn", "n1"))
        assert one is not None
        assert other is not None

        both = one.intersection(other)

        assert both.name is not None
        assert both.name.is_empty

    @pytest.mark.parametrize(
        "bad",
        [
            named("In", "a", "b"),
            named("In"),
            named("Exists"),
            named("In", "a", key="metadata.namespace"),
        ],
    )
    def test_only_one_name_can_be_asked_for_or_excluded(self, bad: NodeSelectorTerm) -> None:
        with pytest.raises(RequirementError, match=r"matchFields takes metadata\.name"):
            compile_term(bad)


class TestMatching:
    @pytest.mark.parametrize(
        ("operator", "values", "label", "expected"),
        [
            ("In", ("a",), "a", True),
            ("In", ("a",), None, False),
            ("NotIn", ("a",), "a", False),
            ("NotIn", ("a",), None, True),
            ("Exists", (), "", True),
            ("Exists", (), None, False),
            ("DoesNotExist", (), None, True),
            ("DoesNotExist", (), "a", False),
            ("Gt", ("4",), "5", True),
            ("Gt", ("4",), "05", True),
            ("Gt", ("4",), "4", False),
            ("Gt", ("4",), "five", False),
            ("Gt", ("4",), None, False),
            ("Lt", ("-4",), "-5", True),
            ("Lt", ("4",), str(2**63), False),
            ("Gt", (str(2**63 - 1),), None, False),
            ("Gte", ("4",), "5", False),
            ("Gt", ("x",), "5", False),
            ("Gt", ("1", "2"), "5", False),
            ("In", (), "a", False),
            ("NotIn", (), "a", False),
            ("Exists", ("a",), "a", False),
        ],
    )
    def test_a_term_is_judged_as_the_scheduler_judges_it(
        self, operator: str, values: tuple[str, ...], label: str | None, *, expected: bool
    ) -> None:
        labels = {} if label is None else {"k": label}

        assert term_matches(term(expression("k", operator, *values)), labels) is expected

    def test_an_empty_term_matches_nothing(self) -> None:
        assert not term_matches(term(), {"k": "a"}, "n1")
        assert compile_term(term()) is None
