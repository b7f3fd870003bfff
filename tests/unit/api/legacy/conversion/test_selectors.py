# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.legacy.conversion.selectors import terms_from_selector
from tests.unit.api.legacy.builders import journal


@pytest.mark.parametrize("key", ["aws-ids", "aws::ids"])
def test_ids_become_one_term_each(key: str) -> None:
    terms = terms_from_selector({key: "subnet-1, subnet-2,subnet-1"}, "spec.subnetSelector", journal())

    assert terms == [{"id": "subnet-1"}, {"id": "subnet-2"}]


def test_tags_of_one_selector_stay_together() -> None:
    terms = terms_from_selector({"team": "a", "env": "*"}, "spec.subnetSelector", journal())

    assert terms == [{"tags": {"team": "a", "env": "*"}}]


def test_comma_lists_of_tags_are_multiplied_out() -> None:
    terms = terms_from_selector({"Name": "a,b", "env": "x, y"}, "spec.subnetSelector", journal())

    assert terms == [
        {"tags": {"Name": "a", "env": "x"}},
        {"tags": {"Name": "a", "env": "y"}},
        {"tags": {"Name": "b", "env": "x"}},
        {"tags": {"Name": "b", "env": "y"}},
    ]


def test_names_owners_and_tags_of_images_are_multiplied_out() -> None:
    selector = {"aws::name": "n1,n2", "aws::owners": "self,amazon", "env": "x"}

    terms = terms_from_selector(selector, "spec.amiSelector", journal(), images=True)

    assert terms == [
        {"name": "n1", "owner": "self", "tags": {"env": "x"}},
        {"name": "n1", "owner": "amazon", "tags": {"env": "x"}},
        {"name": "n2", "owner": "self", "tags": {"env": "x"}},
        {"name": "n2", "owner": "amazon", "tags": {"env": "x"}},
    ]


def test_the_keys_of_images_are_plain_tags_elsewhere() -> None:
    terms = terms_from_selector({"aws::name": "n"}, "spec.subnetSelector", journal())

    assert terms == [{"tags": {"aws::name": "n"}}]


def test_no_selector_gives_no_terms() -> None:
    assert terms_from_selector({}, "spec.amiSelector", journal(), images=True) == []


def test_thirty_terms_are_allowed_and_one_more_is_not() -> None:
    notes = journal()
    thirty = {"a": ",".join(map(str, range(6))), "b": ",".join(map(str, range(5)))}
    more = {"a": ",".join(map(str, range(31)))}

    assert len(terms_from_selector(thirty, "spec.subnetSelector", notes)) == 30
    assert terms_from_selector(more, "spec.subnetSelector", notes) == []

    assert [refusal.reason for refusal in notes.refusals] == [
        "the comma lists multiply out to 31 terms, v1 allows 30"
    ]


def test_more_than_thirty_ids_are_refused() -> None:
    notes = journal()

    terms = terms_from_selector({"aws-ids": ",".join(f"subnet-{n}" for n in range(31))}, "spec.x", notes)

    assert terms == []
    assert len(notes.refusals) == 1


def test_an_id_beside_tags_is_refused_with_what_to_remove() -> None:
    notes = journal()

    terms = terms_from_selector({"aws-ids": "sg-1", "team": "a"}, "spec.securityGroupSelector", notes)

    assert terms == []
    assert notes.refusals[0].field == "spec.securityGroupSelector"
    assert "remove team, or the ids" in notes.refusals[0].hint


def test_an_empty_entry_of_a_list_is_refused_at_its_key() -> None:
    notes = journal()

    terms = terms_from_selector({"team": "a,,b", "env": ""}, "spec.subnetSelector", notes)

    assert terms == []
    assert [refusal.field for refusal in notes.refusals] == [
        "spec.subnetSelector[team]",
        "spec.subnetSelector[env]",
    ]
