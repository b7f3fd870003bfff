# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.schema.names import (
    kind_complaints,
    label_value_complaints,
    name_complaints,
    namespace_complaints,
    qualified_name_complaints,
)


def test_a_name_is_a_dns_subdomain() -> None:
    assert name_complaints("a.b-c.1") == []
    assert name_complaints("a" * 253) == []
    assert len(name_complaints("A")) == 1
    assert name_complaints("a" * 254) == ["must be no more than 253 characters"]
    assert name_complaints("-" * 254)[0] == "must be no more than 253 characters"
    assert len(name_complaints("-" * 254)) == 2


def test_a_complaint_shows_an_example_and_the_pattern() -> None:
    (complaint,) = name_complaints("a_b")

    assert complaint == (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_a_namespace_is_a_dns_label() -> None:
    assert namespace_complaints("kube-system") == []
    assert namespace_complaints("a.b") == ["must not contain dots"]
    assert namespace_complaints("a" * 64) == ["must be no more than 63 characters"]
    assert "a lowercase RFC 1123 label" in namespace_complaints("A")[0]


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("a", []),
        ("example.com/MyName_1", []),
        ("/a", ["prefix part must be non-empty"]),
        ("A/a", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("a/b/c", ["a qualified name must consist of"]),
        ("x" * 64, ["name part must be no more than 63 characters"]),
        ("a b", ["name part must consist of"]),
    ],
)
def test_a_label_key_may_have_a_domain(name: str, starts: list[str]) -> None:
    complaints = qualified_name_complaints(name)

    assert len(complaints) == len(starts)
    for complaint, start in zip(complaints, starts, strict=True):
        assert complaint.startswith(start)


def test_a_label_value_may_be_empty() -> None:
    assert label_value_complaints("") == []
    assert label_value_complaints("a.b_c-d") == []
    assert len(label_value_complaints("a b")) == 1
    assert label_value_complaints("é" * 40)[0] == "must be no more than 63 characters"


def test_a_kind_starts_with_a_letter() -> None:
    assert kind_complaints("nodepool") == []
    assert len(kind_complaints("1pool")) == 1
