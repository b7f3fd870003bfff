# SPDX-License-Identifier: Apache-2.0
"""``karpenter migrate``: come from managed node groups and the Cluster Autoscaler, or from the Go Karpenter.

``nodegroups`` reads and proposes manifests; ``karpenter`` reads and tells whether a hand-over is safe, with the steps.
Neither changes anything: what changes a cluster is typed by the person.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from karpenter.cli import output
from karpenter.cli.groups import CommandGroup
from karpenter.cli.main import REFUSED

__all__ = ["command"]

_LEASE = "karpenter-leader-election"
_KINDS = (
    ("karpenter.sh", "nodepools"),
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.k8s.aws", "ec2nodeclasses"),
)

_GROUPS_EXAMPLES = """\b
Examples:
  karpenter migrate nodegroups --cluster-name prod > nodepools.yaml
  kubectl diff -f nodepools.yaml
  kubectl apply -f nodepools.yaml"""

_GO_EXAMPLES = """\b
Examples:
  karpenter migrate karpenter --namespace karpenter

\b
Exit codes: 0 a hand-over is safe, 1 something has to be done before."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    ok: bool
    what: str
    words: str
    hint: str = ""


@click.group("migrate", cls=CommandGroup)
def command() -> None:
    """Come from managed node groups, or from the Go Karpenter."""


@command.command("nodegroups", epilog=_GROUPS_EXAMPLES)
@click.option("--cluster-name", required=True, envvar="CLUSTER_NAME", help="The EKS cluster.")
@click.option("--region", default=None, help="Its region; AWS_REGION or the profile's if not given.")
@click.option("--profile", default=None, help="AWS profile whose credentials are used.")
@click.option(
    "--skip", multiple=True, metavar="NAME", help="A node group to leave out, e.g. the controller's own."
)
@click.option("-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml")
def nodegroups(
    *, cluster_name: str, region: str | None, profile: str | None, skip: tuple[str, ...], form: str
) -> int:
    """Propose NodePools that cover a cluster's managed node groups; nothing is changed."""
    # boto3 takes half a second to import; --help need not wait for it.
    from karpenter import facts  # noqa: PLC0415
    from karpenter.api.manifests import write_yaml  # noqa: PLC0415
    from karpenter.cloud.aws.install import Account, Choices, read_site  # noqa: PLC0415
    from karpenter.cloud.aws.install.nodegroups import cover  # noqa: PLC0415

    account = Account(region, profile)
    with output.patiently(f"reading the node groups of {cluster_name} ..."):
        # How the controller gets its role does not matter to what is proposed here.
        site = read_site(account, Choices(cluster_name, pod_identity=True))
        listed = account.pages("eks", "ListNodegroups", "nodegroups", clusterName=cluster_name)
        groups = [
            account.call("eks", "DescribeNodegroup", clusterName=cluster_name, nodegroupName=each)[
                "nodegroup"
            ]
            for each in listed
            if each not in skip
        ]
        subnets = sorted({each for group in groups for each in group.get("subnets", ())})
        described = account.call("ec2", "DescribeSubnets", SubnetIds=subnets)["Subnets"] if subnets else []
    zones = {each["SubnetId"]: each["AvailabilityZone"] for each in described}
    manifests, notes = cover(site, groups, zones, facts.instance_types())
    output.write_data(json.dumps(manifests, indent=2) + "\n" if form == "json" else write_yaml(manifests))
    for note in notes:
        output.say(note, output.WARNING)
    if not manifests:
        output.say(
            f"cluster {cluster_name} has no managed node groups" + (" but those left out" if skip else "")
        )
    return 0


@command.command("karpenter", epilog=_GO_EXAMPLES)
@click.option("--namespace", default="karpenter", show_default=True, help="Where the Go Karpenter runs.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), default=None, help="Instead of KUBECONFIG.")
@click.option("--context", default="", help="Context of the kubeconfig; the current one if not given.")
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def from_karpenter(*, namespace: str, kubeconfig: Path | None, context: str, form: str) -> int:
    """Tell whether this cluster can be handed over from the Go Karpenter, and how; nothing is changed."""
    findings = asyncio.run(_look(namespace, kubeconfig, context))
    if form == "json":
        output.write_data(json.dumps([asdict(each) for each in findings], indent=2) + "\n")
    else:
        for each in findings:
            output.write_data(f"{'ok' if each.ok else 'no':<4}{each.what:<22}{each.words}\n")
            if each.hint:
                output.say(each.hint, output.HINT)
    if not all(each.ok for each in findings):
        return REFUSED
    if form == "text":
        output.say("the hand-over, no node is replaced and no pod is evicted by it:")
        output.say(f"  kubectl -n {namespace} scale deployment karpenter --replicas=0")
        output.say(f"  helm upgrade --install karpenter charts/karpenter -n {namespace} --reuse-values")
        output.say("and back: scale ours to 0, then `helm rollback karpenter`")
    return 0


async def _look(namespace: str, kubeconfig: Path | None, context: str) -> list[Finding]:
    from karpenter.kube import Client, load_config  # noqa: PLC0415

    async with Client(load_config(kubeconfig, context)) as client:
        findings = [await _kind(client, group, plural) for group, plural in _KINDS]
        findings.append(await _deployment(client, namespace))
        findings.append(await _lease(client, namespace))
        if findings[1].ok:
            findings += await _claims(client)
    return findings


async def _read(client: Any, path: str) -> dict[str, Any] | None:
    from karpenter.kube import NotFoundError  # noqa: PLC0415

    try:
        read: dict[str, Any] = json.loads(await client.raw("GET", path))
    except NotFoundError:
        return None
    return read


async def _kind(client: Any, group: str, plural: str) -> Finding:
    name = f"{plural}.{group}"
    found = await _read(client, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    if found is None:
        return Finding(
            False, plural, "is not installed", "helm upgrade --install karpenter-crd charts/karpenter-crd"
        )
    served = [each["name"] for each in found["spec"]["versions"] if each["served"]]
    stored = found.get("status", {}).get("storedVersions", [])
    if "v1" not in served:
        hint = "upgrade the Go Karpenter to v1.0 or newer first, or convert with `karpenter convert`"
        return Finding(False, plural, f"is served as {', '.join(served)}, not as v1", hint)
    old = [each for each in stored if each != "v1"]
    if old:
        return Finding(
            True, plural, f"v1; objects may still be stored as {', '.join(old)}, which is understood"
        )
    return Finding(True, plural, "v1")


async def _deployment(client: Any, namespace: str) -> Finding:
    found = await _read(client, f"/apis/apps/v1/namespaces/{namespace}/deployments/karpenter")
    if found is None:
        return Finding(
            True, "controller", f"there is no Deployment {namespace}/karpenter: nothing has to be stopped"
        )
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return Finding(True, "controller", f"{found.get('status', {}).get('readyReplicas', 0)} ready, {image}")


async def _lease(client: Any, namespace: str) -> Finding:
    found = await _read(client, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{_LEASE}")
    if found is None:
        hint = (
            "look for the lease karpenter-leader-election in other namespaces, and pass that as --namespace"
        )
        return Finding(True, "lease", f"there is none in {namespace}: nobody leads there", hint)
    holder = found["spec"].get("holderIdentity") or "nobody"
    return Finding(True, "lease", f"{_LEASE} is held by {holder}; ours waits for it")


async def _claims(client: Any) -> list[Finding]:
    listed = await _read(client, "/apis/karpenter.sh/v1/nodeclaims") or {"items": []}
    pools = await _read(client, "/apis/karpenter.sh/v1/nodepools") or {"items": []}
    kinds = {each["spec"]["nodeClassRef"].get("kind", "") for each in listed["items"]}
    foreign = sorted(kinds - {"EC2NodeClass", ""})
    findings = [
        Finding(True, "nodes", f"{len(listed['items'])} NodeClaims of {len(pools['items'])} NodePools"),
        _fingerprints(pools["items"]),
    ]
    if foreign:
        findings.append(
            Finding(
                False,
                "node classes",
                f"NodeClaims name {', '.join(foreign)}, which this program does not know",
                "only EC2NodeClass can be taken over; remove those NodePools before",
            )
        )
    moving = [
        each["metadata"]["name"] for each in listed["items"] if each["metadata"].get("deletionTimestamp")
    ]
    if moving:
        findings.append(
            Finding(
                False,
                "under way",
                f"{len(moving)} NodeClaims are being removed: {', '.join(moving[:3])}",
                "wait until they are gone, so that nobody drains a node twice",
            )
        )
    waiting = [
        each["metadata"]["name"] for each in listed["items"] if not each.get("status", {}).get("providerID")
    ]
    if waiting:
        findings.append(
            Finding(
                False,
                "under way",
                f"{len(waiting)} NodeClaims have no instance yet: {', '.join(waiting[:3])}",
                "wait until they have one",
            )
        )
    return findings


def _fingerprints(pools: list[dict[str, Any]]) -> Finding:
    """Tells whether we reckon for each pool what the Go Karpenter wrote on it; where not, its nodes would drift."""
    import msgspec  # noqa: PLC0415

    from karpenter.api import labels  # noqa: PLC0415
    from karpenter.api.nodepool import NodePool  # noqa: PLC0415
    from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash  # noqa: PLC0415

    same, differ = 0, []
    for each in pools:
        try:
            pool = msgspec.convert(each, NodePool, strict=False)
        except msgspec.ValidationError:
            # Written through v1beta1, and so without a fingerprint of this version.
            continue
        written = pool.metadata.annotations
        if written.get(labels.NODEPOOL_HASH_VERSION) != POOL_HASH_VERSION:
            continue
        if written.get(labels.NODEPOOL_HASH) == pool_hash(pool):
            same += 1
        else:
            differ.append(pool.metadata.name)
    if not differ:
        return Finding(True, "fingerprints", f"{same} of {len(pools)} NodePools carry ours already")
    return Finding(
        False,
        "fingerprints",
        f"differ for {', '.join(differ[:3])}: nodes of {len(differ)} NodePools would count as drifted",
        "let the Go Karpenter see their last change; or they say something that this program does not know",
    )
