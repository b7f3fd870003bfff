# SPDX-License-Identifier: Apache-2.0
"""``karpenter convert``: manifests of old Karpenter versions as v1, everything else as it is.

Objects that can be converted are printed even if others are refused, and nothing is printed for a refused
one; the exit code tells. Warnings, reasons and the count go to stderr, so stdout can be applied or stored as
it comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import click

from karpenter.api.legacy import Conversion, ObjectRef, Step, convert
from karpenter.api.legacy.conversion.progress import counted
from karpenter.api.manifests import Manifest, write_yaml
from karpenter.cli import output
from karpenter.cli.inputs import read_objects
from karpenter.cli.main import REFUSED

__all__ = ["command", "findings", "rendered"]

_EXAMPLES = """\b
Examples:
  # See what would change.
  karpenter convert -f provisioner.yaml --diff
\b
  # Convert a directory and apply the result.
  karpenter convert -f manifests/ > v1.yaml && kubectl apply -f v1.yaml
\b
  # Convert what a cluster has.
  kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -f -
\b
  # Node templates without an instance profile used the one of the controller's settings.
  karpenter convert -f templates.yaml --default-instance-profile KarpenterNodeInstanceProfile-example

Exit codes: 0 all converted, 1 something was refused (the rest is printed), 2 the input cannot be read."""


@click.command("convert", epilog=_EXAMPLES)
@click.option(
    "-f",
    "--filename",
    "sources",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="Manifests to read, YAML or JSON; '-' is standard input. May be given several times.",
)
@click.option("-R", "--recursive", is_flag=True, help="Read the directories below a directory as well.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Form of the output; json prints a List.",
)
@click.option("--diff", "as_diff", is_flag=True, help="Print what changes, as a unified diff of YAML.")
@click.option(
    "--to",
    type=click.Choice(["v1", "v1beta1"]),
    default="v1",
    show_default=True,
    help="Version to convert to; v1beta1 takes v1 objects back.",
)
@click.option(
    "--default-instance-profile",
    default="",
    metavar="NAME",
    help="For AWSNodeTemplates without one; read from the ConfigMap karpenter-global-settings if that is in the input.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    sources: tuple[str, ...],
    recursive: bool,
    form: Literal["yaml", "json"],
    as_diff: bool,
    to: Literal["v1", "v1beta1"],
    default_instance_profile: str,
) -> None:
    """Rewrite manifests of old Karpenter versions as v1.

    Converts Provisioner, Machine, AWSNodeTemplate and the v1beta1 NodePool, NodeClaim and EC2NodeClass. Objects of
    other kinds, and those that are v1 already, are printed as they are, in their place. Give pools together with their
    node classes: kubelet settings move from the one to the other.
    """
    with output.patiently(f"reading {', '.join(sources)} ...") as progress:

        def tell(stage: str, done: int, total: int) -> None:
            progress.text = f"{stage} {done:,} of {total:,} objects ..."

        def tell_read(name: str, count: int) -> None:
            progress.text = f"reading {name}: {count:,} objects so far ..."

        manifests = read_objects(sources, recursive=recursive, tell=tell_read)
        objects = [manifest.object for manifest in manifests]
        conversion = convert(objects, to=to, default_instance_profile=default_instance_profile, tell=tell)
        text = rendered(conversion, "diff" if as_diff else form, tell)
    output.write_data(text)
    for label, line in findings(conversion, manifests):
        output.say(line, label)
    if conversion.refusals:
        ctx.exit(REFUSED)


def rendered(
    conversion: Conversion,
    form: Literal["yaml", "json", "diff"],
    tell: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
) -> str:
    """Returns the converted objects as text; ``tell`` hears how far that is."""
    if form == "diff":
        steps = [step for step in conversion.steps if step.converted]
        return "".join(_difference(step) for step in counted("comparing", steps, tell))
    if form == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(conversion.objects)}
        return json.dumps(listed, indent=2, ensure_ascii=False) + "\n"
    return "---\n".join(write_yaml([each]) for each in counted("writing", conversion.objects, tell))


def findings(conversion: Conversion, manifests: Sequence[Manifest]) -> Iterator[tuple[str, str]]:
    """Yields what the conversion warns of, refuses and counts, each line with its label.

    Where the objects come from several files, each line ends with the place of its object.
    """
    several = len({manifest.source for manifest in manifests}) > 1
    places = {id(manifest.object): f" ({manifest})" for manifest in manifests} if several else {}

    def place(ref: ObjectRef) -> str:
        return places.get(id(conversion.steps[ref.position].before), "")

    for warning in conversion.warnings:
        yield output.WARNING, f"{warning}{place(warning.object)}"
    for refusal in conversion.refusals:
        yield output.ERROR, f"{refusal}{place(refusal.object)}"
        if refusal.hint:
            yield output.HINT, refusal.hint
    yield "", _summary(conversion)


def _difference(step: Step) -> str:
    made = ", ".join(f"{made['kind']} {made['metadata']['name']}" for made in step.after)
    return output.diff(write_yaml([step.before]), write_yaml(step.after), str(step.object), made)


def _summary(conversion: Conversion) -> str:
    converted = sum(step.converted for step in conversion.steps)
    refused = sum(step.refused for step in conversion.steps)
    passed = len(conversion.steps) - converted - refused
    counts = [f"{converted} converted", f"{passed} passed through"]
    counts += [f"{refused} refused and left out"] if refused else []
    if conversion.warnings:
        counts.append(f"{len(conversion.warnings)} warning{'s' if len(conversion.warnings) > 1 else ''}")
    return ", ".join(counts)
