# SPDX-License-Identifier: Apache-2.0
"""The metrics of Go sources are read with their types and labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.karpenter_metrics import main

_SHARED = """
package metrics

const (
	Namespace     = "karpenter"
	NodePoolLabel = "nodepool"
)
"""
_CORE = """
package disruption

const (
	subsystem     = "disruption"
	decisionLabel = "decision"
)

var (
	Decisions = opmetrics.NewPrometheusCounter(
		crmetrics.Registry,
		prometheus.CounterOpts{
			Namespace: metrics.Namespace,
			Subsystem: subsystem,
			Name:      "decisions_total",
			Help:      "How many (of all).",
		},
		[]string{decisionLabel, metrics.NodePoolLabel, "zone"},
	)
	Age = opmetrics.NewPrometheusGauge(
		crmetrics.Registry,
		prometheus.GaugeOpts{Namespace: metrics.Namespace, Name: "age", Help: "How old."},
		nodeLabelNamesWithResourceType(),
	)
	State = opmetrics.NewPrometheusGauge(
		crmetrics.Registry,
		prometheus.GaugeOpts{Namespace: metrics.Namespace, Name: "state", Help: "How it is."},
		labelNames(),
	)
)

func labelNames() []string {
	return []string{
		decisionLabel,
	}
}

func nodeLabelNamesWithResourceType() []string {
	return append(nodeLabelNames(), metrics.ResourceTypeLabel)
}

func count() {
		decisionLabel = "rejected"
}
"""
_CORE_LABELS = """
package v1

const (
	NodePoolLabelKey = apis.Group + "/nodepool"
)

var WellKnownLabels = sets.New(
	NodePoolLabelKey,
	v1.LabelArchStable,
)
"""
_AWS_LABELS = """
package v1

func init() {
	karpv1.WellKnownLabels = karpv1.WellKnownLabels.Insert(
		LabelInstanceCPU,
	)
}

var (
	LabelInstanceCPU = apis.Group + "/instance-cpu"
)
"""


def _write(root: Path, path: str, text: str) -> None:
    whole = root / "pkg" / path
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text(text, encoding="utf-8")


def test_metrics_are_listed_with_type_and_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    core, provider = tmp_path / "core", tmp_path / "provider"
    _write(core, "metrics/constants.go", _SHARED)
    _write(core, "disruption/metrics.go", _CORE)
    _write(core, "disruption/metrics_test.go", _CORE.replace("decisions_total", "tests_total"))
    _write(core, "apis/v1/labels.go", _CORE_LABELS)
    _write(provider, "apis/v1/labels.go", _AWS_LABELS)

    assert main([str(core), str(provider)]) == 0

    node = ["arch", "instance_cpu", "managed", "node_name", "nodepool", "phase", "resource_type"]
    assert json.loads(capsys.readouterr().out) == {
        "karpenter_age": {"type": "gauge", "labels": node},
        "karpenter_disruption_decisions_total": {
            "type": "counter",
            "labels": ["decision", "nodepool", "zone"],
        },
        "karpenter_state": {"type": "gauge", "labels": ["decision"]},
    }


@pytest.mark.parametrize(
    ("labels", "problem"), [("package v1", "has no WellKnownLabels"), (_CORE_LABELS[:-3], "is not closed")]
)
def test_sources_of_another_shape_are_refused(tmp_path: Path, labels: str, problem: str) -> None:
    _write(tmp_path, "metrics/constants.go", _SHARED)
    _write(tmp_path, "apis/v1/labels.go", labels)

    with pytest.raises(ValueError, match=problem):
        main([str(tmp_path), str(tmp_path)])
