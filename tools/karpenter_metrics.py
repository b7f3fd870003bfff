# SPDX-License-Identifier: Apache-2.0
"""Lists the metrics that Karpenter's Go sources declare: name, type and label names, as JSON on standard output.

`python -m tools.karpenter_metrics CORE PROVIDER`, both folders of Go modules of one version. The list is kept with the
tests as the facts that our own declarations are compared with.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["declared", "main"]

_CALL: Final = re.compile(r"opmetrics\.NewPrometheus(Counter|Gauge|Histogram|Summary)\(")
_CONSTANT: Final = re.compile(r"^\t?(?:const\s+)?(\w+)\s*(?:string\s*)?=\s*(.+?)\s*(?://.*)?$", re.MULTILINE)
_FIELD: Final = re.compile(r"\b(Namespace|Subsystem|Name):\s*([\w.]+|\"[^\"]*\")")
_LABELS: Final = re.compile(r"\[\]string\{(.*?)\}", re.DOTALL)
# Kubernetes' own names, which come from a module that need not be at hand.
_KUBERNETES: Final = {
    "LabelTopologyZone": "topology.kubernetes.io/zone",
    "LabelTopologyRegion": "topology.kubernetes.io/region",
    "LabelInstanceTypeStable": "node.kubernetes.io/instance-type",
    "LabelArchStable": "kubernetes.io/arch",
    "LabelOSStable": "kubernetes.io/os",
    "LabelWindowsBuild": "node.kubernetes.io/windows-build",
    "Group": "karpenter.sh",
    "apis.Group": "karpenter.k8s.aws",
}


def declared(core: Path, provider: Path) -> dict[str, dict[str, object]]:
    """Give type and label names of each metric, by name."""
    shared = _constants((core / "pkg" / "metrics").glob("*.go"))
    well_known = _well_known(core, provider)
    found: dict[str, dict[str, object]] = {}
    for root in (core, provider):
        for path in sorted((root / "pkg").rglob("*.go")):
            if not path.name.endswith("_test.go"):
                known = {**shared, **_constants(path.parent.glob("*.go"))}
                for name, kind, labels in _metrics(path.read_text(encoding="utf-8"), known, well_known):
                    found[name] = {"type": kind, "labels": sorted(labels)}
    return dict(sorted(found.items()))


def _metrics(
    text: str, known: Mapping[str, str], well_known: frozenset[str]
) -> Iterator[tuple[str, str, set[str]]]:
    for call in _CALL.finditer(text):
        arguments = text[call.end() : _end(text, call.end())]
        fields = {key: _value(value, known) for key, value in _FIELD.findall(arguments)}
        name = "_".join(filter(None, (fields.get(key, "") for key in ("Namespace", "Subsystem", "Name"))))
        yield name, call[1].lower(), _labels(arguments, text, known, well_known)


def _labels(arguments: str, text: str, known: Mapping[str, str], well_known: frozenset[str]) -> set[str]:
    last = arguments.rpartition("},")[2].strip().rstrip(",")
    if written := _LABELS.search(arguments[arguments.find("Help") :]):
        return {_value(each, known) for each in re.findall(r"[\w.]+|\"[^\"]*\"", written[1])}
    # A function of the same file: the well-known labels of a node with more, or a list.
    body = text[text.index(f"func {last}") :].partition("\n}")[0]
    if written := _LABELS.search(body):
        return {_value(each, known) for each in re.findall(r"[\w.]+", written[1])}
    own = {"node_name", "phase", "managed"}
    return {*well_known, *own, *(("resource_type",) if "ResourceType" in last else ())}


def _well_known(core: Path, provider: Path) -> frozenset[str]:
    """Give the labels that node metrics carry: the last part of each well-known label, in snake case."""
    found = set()
    for root in (core, provider):
        path = root / "pkg" / "apis" / "v1" / "labels.go"
        text = path.read_text(encoding="utf-8")
        known = {**_KUBERNETES, **_constants([path])}
        start = re.search(r"WellKnownLabels = (?:sets\.New|karpv1\.WellKnownLabels\.Insert)\(", text)
        if start is None:
            raise ValueError(f"{path} has no WellKnownLabels")
        for each in re.findall(r"[\w.]+", text[start.end() : _end(text, start.end())]):
            label = _value(each, known)
            found.add(label.rpartition("/")[2].lower().replace("-", "_"))
    return frozenset(found)


def _constants(paths: Iterator[Path] | list[Path]) -> dict[str, str]:
    found = dict(_KUBERNETES)
    for path in paths:
        for name, value in _CONSTANT.findall(path.read_text(encoding="utf-8")):
            parts = [part.strip() for part in value.split("+")]
            if all(part.startswith('"') or part in found for part in parts):
                found[name] = "".join(_value(part, found) for part in parts)
    return found


def _value(text: str, known: Mapping[str, str]) -> str:
    if text.startswith('"'):
        return text.strip('"')
    return known[text] if text in known else known[text.rpartition(".")[2]]


def _end(text: str, start: int) -> int:
    """Give where the parenthesis that was opened before ``start`` is closed."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    raise ValueError("a parenthesis is not closed")


def main(arguments: list[str]) -> int:
    """Write the list."""
    core, provider = map(Path, arguments)
    json.dump(declared(core, provider), sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
