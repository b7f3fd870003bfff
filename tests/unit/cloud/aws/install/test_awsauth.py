# SPDX-License-Identifier: Apache-2.0
"""The node role's entry in aws-auth: added below what others wrote, never instead of it."""

from __future__ import annotations

import pytest
import yaml

from karpenter.cloud.aws.install import InstallError
from karpenter.cloud.aws.install.awsauth import with_role, without_role

_ROLE = "arn:aws:iam::111122223333:role/KarpenterNodeRole-prod"
_OTHERS = """\
# nodes of the system group
- rolearn: arn:aws:iam::111122223333:role/EKSNodeRole
  username: system:node:{{EC2PrivateDNSName}}
  groups: [system:bootstrappers, system:nodes]
- rolearn: arn:aws:iam::111122223333:role/admins
  username: admin
  groups: [system:masters]
"""


@pytest.mark.parametrize("text", ["", "[]", "\n", _OTHERS, _OTHERS.rstrip("\n")])
def test_the_role_is_added_and_what_others_wrote_stays_letter_by_letter(text: str) -> None:
    after = with_role(text, _ROLE)

    before = yaml.safe_load(text) or []
    assert after.startswith(text.strip() if before else "")
    assert yaml.safe_load(after) == [
        *before,
        {
            "rolearn": _ROLE,
            "username": "system:node:{{EC2PrivateDNSName}}",
            "groups": ["system:bootstrappers", "system:nodes"],
        },
    ]


def test_an_indented_list_keeps_its_indent() -> None:
    text = "  - rolearn: a\n    groups: [system:nodes]\n"

    assert [each["rolearn"] for each in yaml.safe_load(with_role(text, _ROLE))] == ["a", _ROLE]


def test_a_second_time_changes_nothing() -> None:
    once = with_role(_OTHERS, _ROLE)

    assert with_role(once, _ROLE) == once


def test_the_entry_goes_again_and_nothing_else() -> None:
    assert without_role(with_role(_OTHERS, _ROLE)) == _OTHERS
    assert without_role(_OTHERS) == _OTHERS


def test_an_entry_whose_end_somebody_deleted_is_left_alone() -> None:
    text = with_role(_OTHERS, _ROLE).replace("# karpenter install: end\n", "")

    assert without_role(text) == text


@pytest.mark.parametrize("text", ["- rolearn: [", "rolearn: x\n", "- just text\n", "a: b: c"])
def test_text_that_cannot_be_read_is_never_written_over(text: str) -> None:
    with pytest.raises(InstallError) as refused:
        with_role(text, _ROLE)

    assert "is left as it is" in refused.value.message
    assert "kubectl" in refused.value.hint


def test_a_list_in_one_line_is_refused_with_what_to_add_by_hand() -> None:
    with pytest.raises(InstallError) as refused:
        with_role("[{rolearn: a, groups: [system:nodes]}]", _ROLE)

    assert _ROLE in refused.value.hint or "kubectl" in refused.value.hint


def test_the_role_with_other_groups_is_told() -> None:
    with pytest.raises(InstallError) as refused:
        with_role(f"- rolearn: {_ROLE}\n  groups: [viewers]\n", _ROLE)

    assert "not to system:nodes" in refused.value.message
