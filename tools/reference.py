# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages from the code: `python -m tools.reference` (`--check` only tells whether they are old).

Commands come from the program's own help, settings and metrics from their tables, fields from the definitions of our
kinds, AWS calls from the table that is also the list of rights. So a page cannot say what the program does not do; a
test fails when one is older than the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import yaml

from karpenter.cli.main import karpenter
from karpenter.cloud.aws.calls import CALLS
from karpenter.observe.catalogue import NODE_LABELS
from karpenter.observe.metrics import declarations
from karpenter.operator.settings import Setting, table

__all__ = ["PAGES", "main"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_FOLDER: Final = _ROOT / "docs" / "reference"
_CRDS: Final = _ROOT / "src" / "karpenter" / "api" / "crds"
_MADE: Final = "<!-- Written by `python -m tools.reference`; change the code, not this page. -->\n\n"
_WIDTH: Final = 100


def commands() -> str:
    """Give every command with its help."""
    parts = ["# Commands\n"]
    for name, command in _commands(karpenter, "karpenter"):
        context = click.Context(command, info_name=name, max_content_width=_WIDTH, terminal_width=_WIDTH)
        text = click.unstyle(command.get_help(context)).rstrip()
        parts.append(f"## `{name}`\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _commands(found, f"{name} {below}")


def settings() -> str:
    """Give every setting of the controller."""
    rows = table()
    parts = [
        "# Settings of the controller\n",
        "A flag wins over its environment variable, the variable over the default. The chart sets the variables.\n",
    ]
    for group in dict.fromkeys(row.group for row in rows):
        parts.append(f"## {group}\n")
        lines = [
            f"| `{row.flag}` | `{row.env}` | {_default(row)} | {_cell(row.text)} |"
            for row in rows
            if row.group == group
        ]
        parts.append(
            "\n".join(["| flag | variable | default | what |", "| --- | --- | --- | --- |", *lines]) + "\n"
        )
    gates = next(row for row in rows if row.name == "feature_gates").shown_default
    parts.append(
        f"## Feature gates\n\nDefault: `{gates}`. A gate that is not known is refused by its name.\n"
    )
    return "\n".join(parts)


def _default(row: Setting) -> str:
    if row.name == "feature_gates":
        return "see below"
    return f"`{row.shown_default}`" if row.shown_default else ""


def metrics() -> str:
    """Give every metric."""
    lines = []
    for each in sorted(declarations(), key=lambda each: each.name):
        labels = ", ".join(
            f"`{label}`" for label in each.labels if label not in NODE_LABELS or len(each.labels) < 20
        )
        labels = f"those of nodes, {labels}" if len(each.labels) > 20 else labels
        switch = f"`{each.detail}`" if each.detail is not None else ""
        lines.append(f"| `{each.name}` | {each.type} | {labels} | {switch} | {_cell(each.text)} |")
    node_labels = ", ".join(f"`{label}`" for label in NODE_LABELS)
    head = (
        "# Metrics\n\nServed at `/metrics` on port 8080. Names, types, labels and units that Karpenter has are"
        " Karpenter's, so that alerts and boards keep working. Metrics with a series for each node, pod or offering are"
        " off unless `--detailed-metrics` (in the chart `settings.detailedMetrics`) names their group; Karpenter's"
        " board of capacity needs `nodes,pods`. The series of a NodePool or EC2NodeClass go two minutes after it and"
        " its nodes are gone, those of pods and nodes at once. Only the replica that leads shows pools, nodes and"
        " pods.\n\n"
        "| name | type | labels | group | what |\n| --- | --- | --- | --- | --- |\n"
    )
    tail = f"\nThe labels of nodes: {node_labels}.\n\n`process_*` are those of every Prometheus client.\n"
    return head + "\n".join(lines) + "\n" + tail


def kinds() -> str:
    """Give every field of every kind that is served."""
    parts = ["# Kinds and their fields\n"]
    for path in sorted(_CRDS.glob("*.yaml")):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        names = definition["names"]
        for version in definition["versions"]:
            short = ", ".join(f"`{each}`" for each in names.get("shortNames", ()))
            also = f" Short names: {short}." if short else ""
            title = f"{definition['group']}/{version['name']} {names['kind']}"
            stored = "" if version["storage"] else " Served for old manifests; what is stored is v1."
            parts.append(f"## {title}\n\n{definition['scope']} scope.{also}{stored}\n")
            schema = version["schema"]["openAPIV3Schema"]["properties"]
            rows = [
                row for part in ("spec", "status") if part in schema for row in _fields(part, schema[part])
            ]
            parts.append("\n".join(["| field | type | what |", "| --- | --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield f"| `{where}` | {_type(field)} | {_cell(_first(field.get('description', '')))} |"
        inner = field.get("items", field)
        if inner.get("properties"):
            yield from _fields(where + ("[]" if "items" in field else ""), inner)


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    extra = field.get("additionalProperties")
    if isinstance(extra, dict):
        return f"map of {_type(extra)}"
    enum = field.get("enum")
    return " \\| ".join(f"`{each}`" for each in enum) if enum else str(field.get("type", "any"))


def aws_calls() -> str:
    """Give every AWS call that the controller makes, and why: the list of rights that it needs."""
    rows = [
        f"| `{call.service}:{call.operation}` | {'changes' if call.mutating else 'reads'} | {_cell(call.why)} |"
        for call in CALLS.values()
    ]
    head = (
        "# AWS calls\n\nThe controller makes these calls and no others; `karpenter install aws` makes its policies from"
        " this list.\n\n| call | | why |\n| --- | --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n"


def _first(text: str) -> str:
    sentence, dot, _ = " ".join(text.split()).partition(". ")
    return sentence + dot.strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("{", "&#123;")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "aws-calls.md": aws_calls,
    "commands.md": commands,
    "kinds.md": kinds,
    "metrics.md": metrics,
    "settings.md": settings,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or tell which are not current."""
    old = []
    for name, render in PAGES.items():
        path, text = _FOLDER / name, _MADE + render()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            old.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if old and "--check" in arguments:
        sys.stderr.write(f"error: not current: {', '.join(old)}\nhint:  python -m tools.reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
