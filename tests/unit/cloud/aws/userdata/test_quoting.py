# SPDX-License-Identifier: Apache-2.0
import pytest

from karpenter.cloud.aws.userdata.errors import UnquotableError
from karpenter.cloud.aws.userdata.quoting import kubelet_flag, powershell_quote, shell_quote


@pytest.mark.parametrize(
    ("text", "word"),
    [("shop", "'shop'"), ("", "''"), ("$(reboot)`id`", "'$(reboot)`id`'"), ("it's", "'it'\"'\"'s'")],
)
def test_a_shell_sees_one_word(text: str, word: str) -> None:
    assert shell_quote(text, "cluster name") == word


@pytest.mark.parametrize("text", ["a\x00b", "a\r\nb"])
def test_what_no_argument_can_carry_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(UnquotableError, match="contains") as caught:
        shell_quote(text, "cluster name")

    assert caught.value.what == "cluster name"


def test_powershell_sees_one_string_whatever_kind_of_single_quote_is_in_it() -> None:
    assert powershell_quote("it's \u2018so\u2019", "x") == "'it''s \u2018\u2018so\u2019\u2019'"


@pytest.mark.parametrize("text", ["</powershell>", "a< / Script>", "<persist>"])
def test_a_tag_inside_a_powershell_string_is_refused(text: str) -> None:
    with pytest.raises(UnquotableError, match="tag"):
        powershell_quote(text, "cluster name")


def test_a_nul_inside_a_powershell_string_is_refused() -> None:
    with pytest.raises(UnquotableError, match="contains"):
        powershell_quote("\x00", "cluster name")


def test_a_threshold_is_no_tag() -> None:
    assert powershell_quote("memory.available<5%", "x") == "'memory.available<5%'"


def test_a_flag_is_one_word_between_double_quotes() -> None:
    assert kubelet_flag("node-labels", ["a=b", "c=$d"], "labels") == '--node-labels="a=b,c=$d"'


@pytest.mark.parametrize("item", ["a,b", "a b", 'a"b', "a'b", "a\\b", "a\nb", "a\u2028b", "a\x7f"])
def test_an_item_that_would_leave_its_flag_is_refused(item: str) -> None:
    with pytest.raises(UnquotableError, match="command line") as caught:
        kubelet_flag("node-labels", ["fine", item], "labels")

    assert caught.value.what == "labels"
