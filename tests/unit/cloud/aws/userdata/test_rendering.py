# SPDX-License-Identifier: Apache-2.0
import base64
from pathlib import Path

import pytest

from karpenter.api.ec2nodeclass import KubeletConfiguration
from karpenter.cloud.aws.amis import FamilyError
from karpenter.cloud.aws.userdata import LIMIT_BYTES, TOO_LARGE, UserDataError
from tests.unit.cloud.aws.userdata.builders import node_class, render, text_of

GOLDENS = Path(__file__).parent / "goldens"
KUBELET = KubeletConfiguration(
    kube_reserved={"cpu": "100m", "memory": "1Gi"},
    eviction_hard={"memory.available": "5%"},
    cpu_cfs_quota=False,
)
CUSTOM = {
    "al2": "#!/bin/bash\necho 'before the node joins'\n",
    "al2023": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: ''\n",
    "bottlerocket": '[settings.ntp]\ntime-servers = ["169.254.169.123"]\n',
    "windows2022": 'Write-Host "before the node joins"',
}


@pytest.mark.parametrize("family", CUSTOM)
@pytest.mark.parametrize("case", ["own", "merged"])
def test_user_data_is_as_reviewed(family: str, case: str) -> None:
    custom = CUSTOM[family] if case == "merged" else ""
    of = node_class(f"{family}@latest", kubelet=KUBELET, raid0=True, custom=custom)

    text = text_of(of)

    golden = GOLDENS / f"{family}-{case}.txt"
    assert text == golden.read_text(encoding="utf-8")


def test_the_order_of_labels_and_settings_makes_no_difference() -> None:
    one = KubeletConfiguration(kube_reserved={"cpu": "1", "memory": "1Gi"})
    other = KubeletConfiguration(kube_reserved={"memory": "1Gi", "cpu": "1"})

    for alias in ("al2@latest", "al2023@latest", "bottlerocket@latest", "windows2022@latest"):
        first = render(node_class(alias, kubelet=one), labels={"a": "1", "b": "2"})
        second = render(node_class(alias, kubelet=other), labels={"b": "2", "a": "1"})

        assert first == second


def test_custom_user_data_is_left_as_it_is() -> None:
    rendered = render(node_class("", family="Custom", custom=" anything\r\n"))

    assert rendered.data == b" anything\r\n"
    assert base64.b64decode(rendered.base64) == rendered.data
    assert rendered.size_bytes == 11


def test_custom_wins_over_the_family_of_the_alias() -> None:
    assert render(node_class("al2023@latest", family="Custom")).data == b""


def test_a_family_that_does_not_exist_is_refused() -> None:
    with pytest.raises(FamilyError, match=r"EC2NodeClass default: .*Ubuntu"):
        render(node_class("", family="Ubuntu"))


def test_more_than_ec2_takes_is_refused_with_the_share_of_each() -> None:
    own = render(node_class("al2@latest")).size_bytes

    with pytest.raises(UserDataError) as caught:
        render(node_class("al2@latest", custom="#!/bin/sh\n" + "#" * LIMIT_BYTES))

    size = LIMIT_BYTES + 10 + own + len(f"--karpenter-{'0' * 32}-0\n") + 55
    assert caught.value.reason == TOO_LARGE
    assert caught.value.message == (
        f"EC2NodeClass default: spec.userData: user data is {size} bytes ({size - own} from spec.userData,"
        f" {own} from us), {size - LIMIT_BYTES} more than the 16384 that EC2 takes"
    )
    assert caught.value.hint


@pytest.mark.parametrize(("size", "warnings"), [(14744, 0), (14745, 1), (LIMIT_BYTES, 1)])
def test_nine_tenths_of_the_limit_are_worth_a_warning(size: int, warnings: int) -> None:
    rendered = render(node_class("", family="Custom", custom="x" * size))

    assert len(rendered.warnings) == warnings
    assert all("close to the 16384" in str(warning) for warning in rendered.warnings)


def test_bytes_are_counted_not_characters() -> None:
    with pytest.raises(UserDataError, match="16386 bytes"):
        render(node_class("", family="Custom", custom="ä" * 8193))
