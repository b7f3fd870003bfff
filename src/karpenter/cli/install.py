# SPDX-License-Identifier: Apache-2.0
"""``karpenter install aws``: all that an existing EKS cluster needs, made, checked or written down; and its removal.

Everything is looked at first and shown as a plan. ``--plan`` ends there, ``--check`` too, with exit code 1 if something
is missing; ``--emit`` writes the same pieces as text. Otherwise the plan is carried out after a yes. Running it again
finds nothing to do. The charts come last, by helm, or as the command to type where there is no helm.
"""

from __future__ import annotations

import asyncio
import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from karpenter.cli import output
from karpenter.cli.groups import CommandGroup
from karpenter.cli.main import REFUSED

if TYPE_CHECKING:
    from karpenter.cloud.aws.install import Account, Site, Step

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  # What would be done, and nothing else.
  karpenter install aws --cluster-name prod --plan
  # Do it, with the chart of a checkout.
  karpenter install aws --cluster-name prod --charts charts
  # What is missing in a set-up that does not work.
  karpenter install aws --cluster-name prod --check
  # For people who write their infrastructure down.
  karpenter install aws --cluster-name prod --emit terraform > karpenter.tf.json

\b
Exit codes: 0 done, or nothing to do; 1 something is missing (--check), in the way, or refused by AWS; 2 the command
line makes no sense."""


@click.group("install", cls=CommandGroup)
def command() -> None:
    """Prepare a cluster and its AWS account for the controller."""


@dataclass(frozen=True, slots=True)
class _Common:
    """The options that installing and its reverse share."""

    cluster_name: str
    region: str | None
    profile: str | None
    namespace: str
    service_account: str
    pod_identity: bool
    kubeconfig: Path | None
    yes: bool
    form: str


def _common(function: Any) -> Any:
    """Give a command the shared options, as one argument."""

    @functools.wraps(function)
    def command_with_common(**given: Any) -> Any:
        common = _Common(**{each.name: given.pop(each.name) for each in fields(_Common)})
        return function(common, **given)

    wrapped: Any = command_with_common
    for option in reversed(
        (
            click.option("--cluster-name", required=True, envvar="CLUSTER_NAME", help="The EKS cluster."),
            click.option(
                "--region", default=None, help="Its region; AWS_REGION or the profile's if not given."
            ),
            click.option("--profile", default=None, help="AWS profile whose credentials are used."),
            click.option("--namespace", default="karpenter", show_default=True, help="Of the controller."),
            click.option("--service-account", default="karpenter", show_default=True, help="Its name."),
            click.option(
                "--pod-identity", is_flag=True, help="EKS Pod Identity instead of an OIDC provider."
            ),
            click.option(
                "--kubeconfig", type=click.Path(path_type=Path), default=None, help="Instead of KUBECONFIG."
            ),
            click.option("--yes", is_flag=True, help="Do it without asking."),
            click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text"),
        )
    ):
        wrapped = option(wrapped)
    return wrapped


@command.command("aws", epilog=_EXAMPLES)
@_common
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--check", "only_check", is_flag=True, help="Tell what is missing, and do nothing.")
@click.option(
    "--emit", type=click.Choice(["cloudformation", "terraform", "yaml"]), help="Write it down instead."
)
@click.option(
    "--charts", type=click.Path(path_type=Path), help="Folder with our two charts, to install them too."
)
def aws(common: _Common, *, only_plan: bool, only_check: bool, emit: str | None, charts: Path | None) -> int:
    """Make what an existing EKS cluster needs: roles, rights, queue, rules, tags, access."""
    from karpenter.cloud.aws.install import carry_out, look, wanted_pieces  # noqa: PLC0415
    from karpenter.cloud.aws.install.emitting import FORMS  # noqa: PLC0415

    account, site = _site(common)
    pieces = wanted_pieces(site)
    if emit:
        output.write_data(FORMS[emit](site, pieces))
        return 0
    with output.patiently("looking at what there is ..."):
        steps = look(account, pieces)
        entrance = _aws_auth(site, common.kubeconfig) if site.by_config_map else None
    lines = [step.as_json() for step in steps] + ([entrance] if entrance else [])
    _show(lines, common.form)
    missing = [line for line in lines if line["action"] != "keep"]
    if only_plan or only_check:
        return REFUSED if only_check and missing else 0
    _ask_unless(common.yes or not missing, f"make these {len(missing)} changes?")
    done = carry_out(account, steps, lambda step: _tell("did", step))
    if entrance and entrance["action"] != "keep":
        asyncio.run(_write_aws_auth(site, common.kubeconfig, present=True))
        output.say("did     change aws-auth")
        done += 1
    output.say(f"{done} changes made" if done else "nothing to do: all is there")
    _install_charts(site, charts, common.kubeconfig)
    return 0


@click.group("uninstall", cls=CommandGroup)
def uninstall_command() -> None:
    """Take back what an installation made."""


@uninstall_command.command("aws")
@_common
def uninstall_aws(common: _Common) -> int:
    """Remove what `karpenter install aws` made for a cluster, the last made first, and nothing else.

    Remove NodePools and the chart before: nodes and instance profiles that the controller made need their roles.
    """
    from karpenter.cloud.aws.install import Standing, look, remove, wanted_pieces  # noqa: PLC0415

    account, site = _site(common)
    with output.patiently("looking at what there is ..."):
        steps = look(account, wanted_pieces(site))
    ours = [step for step in steps if step.found.standing in {Standing.RIGHT, Standing.DIFFERS}]
    _show([{**step.as_json(), "action": "remove"} for step in reversed(ours)], common.form)
    _ask_unless(common.yes or not ours, f"remove these {len(ours)}?")
    if site.by_config_map:
        asyncio.run(_write_aws_auth(site, common.kubeconfig, present=False))
    done = remove(account, steps, lambda step: _tell("removed", step))
    output.say(f"{done} pieces removed" if done else "nothing to do: nothing of ours is there")
    return 0


def _ask_unless(is_settled: bool, question: str) -> None:
    if not is_settled and not click.confirm(question, default=False, err=True):
        raise click.Abort


def _site(common: _Common) -> tuple[Account, Site]:
    # boto3 takes half a second to import; --help need not wait for it.
    from karpenter.cloud.aws.install import Account, Choices, read_site  # noqa: PLC0415

    account = Account(common.region, common.profile)
    choices = Choices(common.cluster_name, common.namespace, common.service_account, common.pod_identity)
    with output.patiently(f"reading cluster {choices.cluster} ..."):
        return account, read_site(account, choices)


def _show(lines: Sequence[dict[str, Any]], form: str) -> None:
    if form == "json":
        output.write_data(json.dumps(lines, indent=2) + "\n")
        return
    width = max((len(line["kind"]) for line in lines), default=0)
    text = ""
    for line in lines:
        text += f"{line['action']:<9}{line['kind']:<{width}}  {line['name']}\n"
        text += "".join(f"{'':<9}{'':<{width}}    {each}\n" for each in line["differences"])
    output.write_data(text)


def _tell(what: str, step: Step) -> None:
    output.say(f"{what:<8}{step.verb if what == 'did' else ''} {step.piece.kind} {step.piece.name}")


def _aws_auth(site: Site, kubeconfig: Path | None) -> dict[str, Any]:
    """Give the step that lets nodes in by the aws-auth ConfigMap."""
    from karpenter.cloud.aws.install.awsauth import with_role  # noqa: PLC0415
    from karpenter.cloud.aws.install.wanted import node_role_arn  # noqa: PLC0415

    text = asyncio.run(_read_aws_auth(kubeconfig))
    there = text is not None and with_role(text, node_role_arn(site)) == text
    differences = [] if there else [f"{node_role_arn(site)} is not in mapRoles"]
    return {
        "action": "keep" if there else "change",
        "kind": "ConfigMap",
        "name": "kube-system/aws-auth",
        "purpose": "lets nodes with the node role join the cluster",
        "differences": differences,
    }


async def _read_aws_auth(kubeconfig: Path | None) -> str | None:
    from karpenter.kube import Client, NotFoundError, load_config  # noqa: PLC0415
    from karpenter.operator.journal import CONFIG_MAPS  # noqa: PLC0415

    async with Client(load_config(kubeconfig, "")) as client:
        try:
            return (await client.get(CONFIG_MAPS, "aws-auth", "kube-system")).data.get("mapRoles", "")
        except NotFoundError:
            return None


async def _write_aws_auth(site: Site, kubeconfig: Path | None, *, present: bool) -> None:
    from karpenter.cloud.aws.install.awsauth import with_role, without_role  # noqa: PLC0415
    from karpenter.cloud.aws.install.wanted import node_role_arn  # noqa: PLC0415
    from karpenter.kube import Client, NotFoundError, load_config  # noqa: PLC0415
    from karpenter.operator.journal import CONFIG_MAPS  # noqa: PLC0415

    role = node_role_arn(site)
    async with Client(load_config(kubeconfig, "")) as client:
        try:
            found = await client.get(CONFIG_MAPS, "aws-auth", "kube-system")
        except NotFoundError:
            if present:
                manifest = {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": with_role("", role)}}
                await client.create(CONFIG_MAPS, manifest, "kube-system")
            return
        text = found.data.get("mapRoles", "")
        wanted = with_role(text, role) if present else without_role(text)
        if wanted != text:
            # With the version that was read: whoever wrote in between must not be overwritten.
            version = {"resourceVersion": found.metadata.resource_version}
            patch = {"metadata": version, "data": {"mapRoles": wanted}}
            await client.patch(CONFIG_MAPS, "aws-auth", patch, "kube-system")


def _install_charts(site: Site, charts: Path | None, kubeconfig: Path | None) -> None:
    from karpenter.cloud.aws.install.emitting import chart_values  # noqa: PLC0415

    where = charts or Path("charts")
    namespace = ("--namespace", site.choices.namespace, "--create-namespace")
    crds = ["helm", "upgrade", "--install", "karpenter-crd", str(where / "karpenter-crd"), *namespace]
    main = ["helm", "upgrade", "--install", "karpenter", str(where / "karpenter"), *namespace, "-f"]
    if charts is None or shutil.which("helm") is None:
        output.say("next, install the charts:")
        output.say(f"  {' '.join(crds)}")
        output.say(f"  karpenter install aws --cluster-name {site.choices.cluster} --emit yaml > values.yaml")
        output.say(f"  {' '.join(main)} values.yaml")
        return
    with tempfile.TemporaryDirectory() as folder:
        values = Path(folder) / "values.yaml"
        values.write_text(yaml.safe_dump(chart_values(site)), encoding="utf-8")
        more = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        for arguments in ([*crds, *more], [*main, str(values), *more]):
            output.say(" ".join(arguments))
            done = subprocess.run(arguments, check=False, capture_output=True, text=True)  # noqa: S603 - helm, found in PATH
            if done.returncode:
                output.error(done.stderr.strip(), "mend what helm complains about, and run this again")
                raise click.exceptions.Exit(REFUSED)
