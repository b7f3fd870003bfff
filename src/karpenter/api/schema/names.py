# SPDX-License-Identifier: Apache-2.0
"""Which texts Kubernetes takes as names, label keys and label values.

Each function returns the complaints, in the API server's words; none means the text is good. Lengths are
counted in bytes, as the server counts them here (and, in schemas, does not).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "kind_complaints",
    "label_value_complaints",
    "name_complaints",
    "namespace_complaints",
    "qualified_name_complaints",
]

_QUALIFIED_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED_NAME})?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_KIND: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"

_IS_QUALIFIED_NAME: Final = re.compile(_QUALIFIED_NAME)
_IS_LABEL_VALUE: Final = re.compile(_LABEL_VALUE)
_IS_DNS_LABEL: Final = re.compile(_DNS_LABEL)
_IS_DNS_SUBDOMAIN: Final = re.compile(_DNS_SUBDOMAIN)
_IS_KIND: Final = re.compile(_KIND)

_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253

_EDGES: Final = "and must start and end with an alphanumeric character"


def name_complaints(name: str) -> list[str]:
    """Return what keeps a text from being the name of a custom object (a DNS subdomain)."""
    complaints = _length_complaints(name, _LONGEST_SUBDOMAIN)
    if not _IS_DNS_SUBDOMAIN.fullmatch(name):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            f"{_EDGES}"
        )
        complaints.append(_pattern_complaint(rule, _DNS_SUBDOMAIN, "example.com"))
    return complaints


def namespace_complaints(namespace: str) -> list[str]:
    """Return what keeps a text from being the name of a namespace (a DNS label)."""
    complaints = _length_complaints(namespace, _LONGEST_LABEL)
    if _IS_DNS_LABEL.fullmatch(namespace):
        return complaints
    if _IS_DNS_SUBDOMAIN.fullmatch(namespace):
        return [*complaints, "must not contain dots"]
    rule = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_EDGES}"
    return [*complaints, _pattern_complaint(rule, _DNS_LABEL, "my-name", "123-abc")]


def qualified_name_complaints(name: str) -> list[str]:
    """Return what keeps a text from being a label key, an annotation key or a finalizer."""
    rule = f"must consist of alphanumeric characters, '-', '_' or '.', {_EDGES}"
    shape = _pattern_complaint(rule, _QUALIFIED_NAME, "MyName", "my.name", "123-abc")
    parts = name.split("/")
    if len(parts) > 2:
        return [
            f"a qualified name {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    complaints = []
    if len(parts) == 2:
        complaints += ["prefix part must be non-empty"] if not parts[0] else []
        complaints += [f"prefix part {complaint}" for complaint in name_complaints(parts[0]) if parts[0]]
    last = parts[-1]
    complaints += ["name part must be non-empty"] if not last else []
    complaints += [f"name part {complaint}" for complaint in _length_complaints(last, _LONGEST_LABEL)]
    if not _IS_QUALIFIED_NAME.fullmatch(last):
        complaints.append(f"name part {shape}")
    return complaints


def label_value_complaints(value: str) -> list[str]:
    """Return what keeps a text from being the value of a label."""
    complaints = _length_complaints(value, _LONGEST_LABEL)
    if not _IS_LABEL_VALUE.fullmatch(value):
        rule = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            f"{_EDGES}"
        )
        complaints.append(_pattern_complaint(rule, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return complaints


def kind_complaints(kind: str) -> list[str]:
    """Return what keeps a text, in lower case, from being a kind (a DNS label that starts with a letter)."""
    complaints = _length_complaints(kind, _LONGEST_LABEL)
    if not _IS_KIND.fullmatch(kind):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        complaints.append(_pattern_complaint(rule, _KIND, "my-name", "abc-123"))
    return complaints


def _length_complaints(text: str, longest: int) -> list[str]:
    return [f"must be no more than {longest} characters"] if len(text.encode()) > longest else []


def _pattern_complaint(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
