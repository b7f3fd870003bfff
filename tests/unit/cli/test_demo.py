# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from karpenter.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_demo_shows_the_old_manifest_the_new_one_and_a_refusal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["demo"]) == 0

    shown = capsys.readouterr()
    assert shown.err == ""
    assert "| kind: Provisioner\n" in shown.out
    assert "| kind: NodePool\n" in shown.out
    assert "warning: Provisioner karpenter-default: spec.kubeletConfiguration.containerRuntime" in shown.out
    assert (
        'error: Provisioner karpenter-default: unknown field "spec.requirements[0].requirements"' in shown.out
    )
    assert "error: Provisioner karpenter-default: spec.requirements[0].key: Required value" in shown.out


def test_the_demo_prints_what_convert_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "-f", str(EXAMPLES / "default-provisioner.yaml")])
    converted = capsys.readouterr()

    main(["demo"])

    shown = capsys.readouterr().out
    assert "".join(f"   | {line}\n" for line in converted.out.splitlines()) in shown
    assert "".join(f"   {line}\n" for line in converted.err.splitlines()) in shown


def test_the_demo_ends_by_saying_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo"])

    assert capsys.readouterr().out.endswith("  karpenter convert -f YOUR.yaml --diff\n")


def test_the_demo_buys_the_cheapest_node_that_holds_the_pods_and_points_out_a_slip(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["demo"])

    shown = capsys.readouterr().out
    assert "5 on 1 new nodes, 1 without a place; $0.096/h (bound $0.096/h)" in shown
    assert 'did you mean "500m"?' in shown
