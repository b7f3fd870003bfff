# SPDX-License-Identifier: Apache-2.0
"""The chart's values and the controller's settings say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter import __version__
from karpenter.operator.settings import GATES, Setting, table

_CHARTS = Path(__file__).resolve().parents[3] / "charts"
_VALUES: dict[str, Any] = yaml.safe_load((_CHARTS / "karpenter" / "values.yaml").read_text(encoding="utf-8"))
_SCHEMA: dict[str, Any] = json.loads((_CHARTS / "karpenter" / "values.schema.json").read_text("utf-8"))
# What the Deployment sets from somewhere else than .Values.settings.
_ELSEWHERE = {
    "bind_address",
    "cpu_requests",
    "disable_leader_election",
    "feature_gates",
    "health_probe_port",
    "karpenter_service",
    "leader_election_name",
    "leader_election_namespace",
    "log_level",
    "log_output_paths",
    "memory_limit",
    "metrics_port",
}
_ROWS = [row for row in table() if row.name not in _ELSEWHERE]


def _key(row: Setting) -> str:
    """Give the chart's key of a setting, which may write an abbreviation in capitals."""
    wanted = row.env.replace("_", "").lower()
    return next((key for key in _VALUES["settings"] if key.lower() == wanted), "")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.name)
def test_every_setting_of_the_controller_is_a_value_of_the_chart_with_its_default(row: Setting) -> None:
    key = _key(row)

    assert key, f"charts/karpenter/values.yaml has no settings.{row.name} in camel case"
    value = _VALUES["settings"][key]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert (row.read(text) if text else row.default) == row.default


def test_the_chart_names_no_setting_that_the_controller_does_not_have() -> None:
    known = {_key(row) for row in _ROWS} | {"aws", "featureGates"}

    assert set(_VALUES["settings"]) == known


def test_the_charts_gates_are_the_controllers() -> None:
    gates = {name[0].upper() + name[1:] for name in _VALUES["settings"]["featureGates"]}

    assert gates == set(GATES)


def test_the_schema_knows_exactly_the_values_there_are() -> None:
    assert set(_SCHEMA["properties"]) == {*_VALUES, "global"}
    assert set(_SCHEMA["properties"]["settings"]["properties"]) == set(_VALUES["settings"])
    assert set(_SCHEMA["properties"]["controller"]["properties"]) == set(_VALUES["controller"])


@pytest.mark.parametrize("chart", ["karpenter", "karpenter-crd"])
def test_the_charts_version_is_the_programs(chart: str) -> None:
    about = yaml.safe_load((_CHARTS / chart / "Chart.yaml").read_text(encoding="utf-8"))

    assert (about["version"], about["appVersion"]) == (__version__, __version__)


def test_both_charts_carry_the_kinds_that_the_program_makes() -> None:
    source = _CHARTS.parent / "src" / "karpenter" / "api" / "crds"
    kinds = sorted(path.name for path in source.glob("*.yaml"))

    assert sorted(path.name for path in (_CHARTS / "karpenter" / "crds").glob("*.yaml")) == kinds
    assert sorted(path.name for path in (_CHARTS / "karpenter-crd" / "files").glob("*.yaml")) == kinds


def test_variables_that_camel_case_does_not_give_are_named_in_the_template() -> None:
    template = (_CHARTS / "karpenter" / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    special = dict(re.findall(r'"(\w+)" "([A-Z_]+)"', template))

    for row in _ROWS:
        key = _key(row)
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).upper()
        assert special.get(key, snake) == row.env


def test_the_status_of_pods_may_be_patched_only_while_pods_are_nominated() -> None:
    templates = _CHARTS / "karpenter" / "templates"
    granting = [each for each in templates.glob("*.yaml") if "pods/status" in each.read_text("utf-8")]

    assert [each.name for each in granting] == ["clusterrole-nominations.yaml"]
    text = granting[0].read_text("utf-8")
    assert text.startswith("{{- if .Values.settings.nominatePods }}\n")
    assert text.endswith("{{- end }}\n")
