# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import pytest

from karpenter.api.core import NodeSelectorRequirement
from karpenter.api.nodeclaim import Requirement as Entry
from karpenter.errors import KarpenterError
from karpenter.model.requirements import (
    ENDLESS,
    NO_REQUIREMENTS,
    Conflict,
    Requirement,
    RequirementError,
    Requirements,
    parse_label_integer,
)

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
LARGEST = str(2**63 - 1)
SMALLEST = str(-(2**63))


def a(operator: str, *values: str, key: str = "k", min_values: int | None = None) -> Requirement:
    return Requirement.of(key, operator, values, min_values=min_values)


def all_of(*requirements: Requirement) -> Requirement:
    return Requirements(requirements)[requirements[0].key]


def wish(key: str, operator: str, *values: str) -> Requirements:
    return Requirements([Requirement.of(key, operator, values)])


class TestOperators:
    @pytest.mark.parametrize(
        ("requirement", "allowed", "refused"),
        [
            (a("In", "a", "b"), ["a", "b"], ["c", "", None]),
            (a("NotIn", "a"), ["b", "", None], ["a"]),
            (a("Exists"), ["a", ""], [None]),
            (a("DoesNotExist"), [None], ["a", ""]),
            (a("Gt", "4"), ["5", "05", "+5", LARGEST], ["4", "-5", "a", "4.5", "5 ", "", None]),
            (a("Gte", "4"), ["4", "5"], ["3", None]),
            (a("Lt", "4"), ["3", "-9"], ["4", "a", None]),
            (a("Lte", "4"), ["4", "0"], ["5", None]),
            (a("Gt", "-2"), ["-1", "0"], ["-2"]),
            (a("Gt", LARGEST), [], ["a", LARGEST, None]),
            (a("Lt", SMALLEST), [], ["a", SMALLEST, None]),
            (Requirement.anything("k"), ["a", "", None], []),
        ],
    )
    def test_each_operator_allows_its_values_and_no_others(
        self, requirement: Requirement, allowed: list[str | None], refused: list[str | None]
    ) -> None:
        assert [value for value in allowed if not requirement.allows(value)] == []
        assert [value for value in refused if requirement.allows(value)] == []
        assert requirement.allows_absence() is requirement.allows(None)

    @pytest.mark.parametrize(
        ("operator", "values", "message", "hint"),
        [
            ("Gt", ("abc",), 'k: "abc" is not a number (operator Gt needs one)', 'k Gt "4"'),
            ("Lte", ("4.5",), 'k: "4.5" is not a number (operator Lte needs one)', 'k Lte "4"'),
            ("Gt", ("1_000",), 'k: "1_000" is not a number (operator Gt needs one)', 'k Gt "4"'),
            ("Gt", ("9" * 20,), f'k: "{"9" * 20}" does not fit into 64 bits', 'k Gt "4"'),
            ("Lt", (), "k: operator Lt needs exactly one value, 0 given", 'k Lt "4"'),
            ("Gte", ("1", "2"), "k: operator Gte needs exactly one value, 2 given", 'k Gte "4"'),
            ("In", (), "k: operator In needs at least one value", 'k In "a-value", or k Exists'),
            (
                "in",
                ("a",),
                'k: there is no operator "in"',
                "use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
            ),
        ],
    )
    def test_what_says_nothing_is_refused_with_key_operator_and_hint(
        self, operator: str, values: tuple[str, ...], message: str, hint: str
    ) -> None:
        with pytest.raises(RequirementError) as caught:
            Requirement.of("k", operator, values)

        assert isinstance(caught.value, KarpenterError)
        assert (caught.value.message, caught.value.hint) == (message, hint)
        assert (caught.value.key, caught.value.operator) == ("k", operator)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("failure-domain.beta.kubernetes.io/zone", ZONE),
            ("topology.ebs.csi.aws.com/zone", ZONE),
            ("beta.kubernetes.io/arch", ARCH),
            ("team", "team"),
        ],
    )
    def test_old_label_names_become_those_of_today_unless_taken_verbatim(self, old: str, new: str) -> None:
        assert Requirement.of(old, "Exists").key == new
        assert Requirement.verbatim(old, "Exists").key == old

    def test_an_expression_brings_its_min_values_where_it_has_some(self) -> None:
        plain = Requirement.from_expression(NodeSelectorRequirement(key="k", operator="Exists"))
        flexible = Requirement.from_expression(Entry(key="k", operator="In", values=("a",), min_values=1))

        assert plain == a("Exists")
        assert flexible == a("In", "a", min_values=1)

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("7", 7),
            ("+7", 7),
            ("-7", -7),
            ("007", 7),
            (LARGEST, 2**63 - 1),
            (SMALLEST, -(2**63)),
            (str(2**63), None),
            ("", None),
            (" 7", None),
            ("7.0", None),
            ("1e3", None),
            ("\N{ARABIC-INDIC DIGIT SEVEN}", None),
            ("9" * 5000, None),
        ],
    )
    def test_label_integers_are_read_as_go_reads_them(self, text: str, number: int | None) -> None:
        assert parse_label_integer(text) == number


class TestIntersection:
    def test_bounds_drop_values_outside_them_and_vanish_on_named_values(self) -> None:
        narrowed = all_of(a("In", "1", "5", "9", "x"), a("Gt", "1"), a("Lt", "9"))

        assert narrowed == a("In", "5")

    def test_excluded_values_outside_the_bounds_are_forgotten(self) -> None:
        narrowed = all_of(a("NotIn", "1", "5", "x"), a("Gte", "3"))

        assert narrowed == Requirement("k", frozenset({"5"}), complement=True, gte=3)

    def test_an_empty_range_is_a_contradiction(self) -> None:
        narrowed = all_of(a("Gt", "5"), a("Lt", "6"))

        assert narrowed.is_empty
        assert narrowed.operator == "DoesNotExist"
        assert not narrowed.allows_absence()

    def test_a_range_of_one_number_is_not_empty(self) -> None:
        narrowed = all_of(a("Gt", "4"), a("Lt", "6"))

        assert not narrowed.is_empty
        assert narrowed.has("5")

    def test_wanting_and_excluding_a_value_is_a_contradiction_not_absence(self) -> None:
        narrowed = all_of(a("In", "a"), a("NotIn", "a"))

        assert narrowed.is_empty
        assert narrowed != a("DoesNotExist")

    def test_a_label_that_must_exist_still_must_when_a_value_is_excluded(self) -> None:
        narrowed = all_of(a("Exists"), a("NotIn", "a"))

        assert narrowed.operator == "NotIn"
        assert not narrowed.allows_absence()

    def test_the_larger_min_values_stays_also_in_a_contradiction(self) -> None:
        assert all_of(a("Exists", min_values=2), a("NotIn", "a", min_values=5)).min_values == 5
        assert all_of(a("Gt", "5", min_values=3), a("Lt", "5")).min_values == 3
        assert a("Gt", LARGEST, min_values=3).min_values == 3


class TestReading:
    def test_length_counts_named_values_and_calls_others_endless(self) -> None:
        assert a("In", "a", "b").length() == 2
        assert a("DoesNotExist").length() == 0
        assert a("Exists").length() == ENDLESS
        assert a("NotIn", "a").length() == ENDLESS - 1

    @pytest.mark.parametrize(
        ("requirement", "value"),
        [
            (a("In", "b", "a"), "a"),
            (a("Exists"), "0"),
            (a("NotIn", "0", "1"), "2"),
            (a("Gt", "4"), "5"),
            (a("Lt", "4"), "3"),
            (a("Lte", "-4"), "-4"),
            (all_of(a("Lte", "4"), a("NotIn", "4", "3")), "2"),
            (all_of(a("Gte", "4"), a("Lte", "5"), a("NotIn", "4")), "5"),
            (all_of(a("Gte", "4"), a("Lte", "4"), a("NotIn", "4")), None),
            (a("DoesNotExist"), None),
        ],
    )
    def test_any_value_is_always_the_same_and_allowed(
        self, requirement: Requirement, value: str | None
    ) -> None:
        assert requirement.any_value() == value

    @pytest.mark.parametrize(
        ("requirement", "text"),
        [
            (a("In", "b", "a"), "k In [a, b]"),
            (a("In", *"gfedcba"), "k In [a, b, c, d, e and 2 more]"),
            (a("NotIn", "a"), "k NotIn [a]"),
            (a("Exists"), "k Exists"),
            (a("DoesNotExist"), "k DoesNotExist"),
            (a("Gt", "4"), "k >= 5"),
            (all_of(a("Gt", "4"), a("Lte", "9"), a("NotIn", "7")), "k NotIn [7] and >= 5 and <= 9"),
            (all_of(a("Exists"), a("NotIn", "7")), "k NotIn [7] and Exists"),
            (all_of(a("In", "a"), a("NotIn", "a")), "k nothing"),
            (a("Exists", min_values=3), "k Exists and at least 3 values"),
            (Requirement.anything("k"), "k anything"),
        ],
    )
    def test_a_requirement_reads_as_a_person_would_say_it(self, requirement: Requirement, text: str) -> None:
        assert str(requirement) == text

    @pytest.mark.parametrize(
        ("requirement", "entries"),
        [
            (a("In", "b", "a"), [("In", ("a", "b"))]),
            (a("NotIn", "a"), [("NotIn", ("a",))]),
            (a("Exists"), [("Exists", ())]),
            (a("DoesNotExist"), [("DoesNotExist", ())]),
            (a("Gt", "4"), [("Gte", ("5",))]),
            (a("Lt", "4"), [("Lte", ("3",))]),
            (all_of(a("Gt", "4"), a("Lt", "9")), [("Gte", ("5",)), ("Lte", ("8",))]),
            (all_of(a("Gt", "4"), a("NotIn", "7")), [("Gte", ("5",)), ("NotIn", ("7",))]),
            (all_of(a("Exists"), a("NotIn", "7")), [("NotIn", ("7",)), ("Exists", ())]),
            (all_of(a("In", "a"), a("NotIn", "a")), [("DoesNotExist", ()), ("Exists", ())]),
            (Requirement.anything("k"), [("NotIn", ())]),
        ],
    )
    def test_writing_back_gives_entries_that_mean_the_same(
        self, requirement: Requirement, entries: list[tuple[str, tuple[str, ...]]]
    ) -> None:
        written = requirement.entries()

        assert [(entry.operator, entry.values) for entry in written] == entries

    def test_min_values_are_written_back_on_every_entry(self) -> None:
        written = all_of(a("Gt", "4", min_values=2), a("Lt", "9")).entries()

        assert written == (
            Entry(key="k", operator="Gte", values=("5",), min_values=2),
            Entry(key="k", operator="Lte", values=("8",), min_values=2),
        )


class TestRequirements:
    def test_requirements_on_one_label_meet_under_its_name_of_today(self) -> None:
        both = Requirements.from_expressions(
            [
                NodeSelectorRequirement(
                    key="beta.kubernetes.io/arch", operator="In", values=("amd64", "arm64")
                ),
                NodeSelectorRequirement(key=ARCH, operator="NotIn", values=("arm64",)),
            ]
        )

        assert list(both) == [Requirement.of(ARCH, "In", ("amd64",))]

    def test_labels_are_requirements_that_they_alone_meet(self) -> None:
        labels = Requirements.from_labels({ZONE: "a", "team": "x"})

        assert labels.allows({ZONE: "a", "team": "x", "other": "y"})
        assert not labels.allows({ZONE: "a"})
        assert not labels.allows({ZONE: "b", "team": "x"})

    def test_they_are_a_map_in_the_order_of_the_keys(self) -> None:
        both = Requirements([a("Exists", key="b"), a("In", "1", key="a")])

        assert list(both.keys()) == ["a", "b"]
        assert [requirement.key for requirement in both] == ["a", "b"]
        assert len(both) == 2
        assert "a" in both
        assert "c" not in both
        assert both["a"] == a("In", "1", key="a")
        assert both.get("c") is None
        assert both.on("a") is both["a"]
        assert both.on("c") == Requirement.anything("c")
        assert str(both) == "a In [1], b Exists"

    def test_equal_ones_hash_alike_whatever_the_order_and_survive_pickling(self) -> None:
        one = Requirements([a("Exists", key="b"), a("In", "1", key="a")])
        other = Requirements([a("In", "1", "2", key="a"), a("Exists", key="b"), a("In", "1", "3", key="a")])

        assert one == other
        assert hash(one) == hash(other)
        assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes
        assert one != Requirements([a("Exists", key="b")])
        assert one != "requirements"
        assert repr(NO_REQUIREMENTS) == "Requirements([])"

    def test_adding_and_removing_give_new_requirements(self) -> None:
        one = wish("a", "In", "1", "2")

        more = one.plus(a("NotIn", "1", key="a"), a("Exists", key="b"))

        assert str(more) == "a In [2], b Exists"
        assert str(more.without("a")) == "b Exists"
        assert str(one) == "a In [1, 2]"

    def test_intersection_with_nothing_is_the_other_side(self) -> None:
        one = wish("a", "In", "1")

        assert one.intersection(NO_REQUIREMENTS) is one
        assert NO_REQUIREMENTS.intersection(one) is one
        assert one.intersection(one) is one
        assert one.intersection(wish("a", "NotIn", "1")).is_empty

    def test_min_values_are_noticed(self) -> None:
        assert Requirements([a("Exists", min_values=2)]).has_min_values
        assert not Requirements([a("Exists")]).has_min_values


class TestCompatibility:
    @pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
    def test_an_undefined_custom_label_passes_where_its_absence_is_allowed(self, operator: str) -> None:
        values = ("a",) if operator == "NotIn" else ()

        assert NO_REQUIREMENTS.compatible(wish("team", operator, *values))

    @pytest.mark.parametrize("operator", ["In", "Exists", "Gt"])
    def test_an_undefined_custom_label_fails_where_it_is_needed(self, operator: str) -> None:
        values = ("1",) if operator in ("In", "Gt") else ()
        wanted = wish("team", operator, *values)

        assert not NO_REQUIREMENTS.compatible(wanted)
        assert NO_REQUIREMENTS.compatible(wanted, frozenset({"team"}))
        assert NO_REQUIREMENTS.intersects(wanted)

    def test_an_undefined_well_known_label_is_open_on_a_node_to_come_but_not_on_one_that_stands(self) -> None:
        assert NO_REQUIREMENTS.compatible(wish(ZONE, "In", "a"))
        assert not NO_REQUIREMENTS.compatible(wish(ZONE, "In", "a"), frozenset())

    def test_exclusions_meet_in_absence(self) -> None:
        assert wish("team", "DoesNotExist").compatible(wish("team", "NotIn", "a"))
        assert wish("team", "NotIn", "a").compatible(wish("team", "DoesNotExist"))
        assert wish("team", "DoesNotExist").compatible(wish("team", "DoesNotExist"))
        assert not wish("team", "In", "a").compatible(wish("team", "NotIn", "a"))
        assert not wish("team", "DoesNotExist").compatible(wish("team", "Exists"))

    def test_a_wish_that_contradicts_itself_is_never_met(self) -> None:
        wanted = Requirements([a("In", "x", key=ZONE), a("NotIn", "x", key=ZONE)])

        assert not NO_REQUIREMENTS.compatible(wanted)
        assert not NO_REQUIREMENTS.intersects(wanted)
        assert not wish(ZONE, "Exists").compatible(wanted)
        assert [conflict.reason for conflict in NO_REQUIREMENTS.conflicts(wanted)] == ["contradiction"]

    def test_conflicts_name_label_wish_offer_and_what_was_meant(self) -> None:
        node = Requirements([a("In", "arm64", key=ARCH), a("In", "x", key="team")])
        wanted = Requirements(
            [
                a("In", "amd64", key=ARCH),
                a("In", "a", key="topology.kubernetes.io/zome"),
                a("In", "a", key="colour"),
                a("NotIn", "y", key="team"),
            ]
        )

        conflicts = node.conflicts(wanted)

        assert [str(conflict) for conflict in conflicts] == [
            'no node has the label "colour", In [a] is wanted',
            "kubernetes.io/arch In [arm64], In [amd64] is wanted",
            f'no node has the label "topology.kubernetes.io/zome", In [a] is wanted; did you mean "{ZONE}"?',
        ]
        assert [conflict.reason for conflict in conflicts] == ["undefined", "disjoint", "undefined"]
        assert conflicts[1] == Conflict(ARCH, wanted[ARCH], node[ARCH])
        assert hash(conflicts[1]) == hash(Conflict(ARCH, wanted[ARCH], node[ARCH]))

    def test_a_contradiction_says_so(self) -> None:
        wanted = Requirements([a("In", "x"), a("NotIn", "x")])

        (conflict,) = wish("k", "In", "x").conflicts(wanted)

        assert str(conflict) == "k: the conditions contradict each other, no value meets them all"
        assert conflict.reason == "contradiction"

    def test_what_is_compatible_has_no_conflicts(self) -> None:
        assert wish("team", "In", "a").conflicts(wish("team", "Exists")) == ()
        assert NO_REQUIREMENTS.conflicts(wish(ZONE, "Exists")) == ()
