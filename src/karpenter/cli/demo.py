# SPDX-License-Identifier: Apache-2.0
"""``karpenter demo``: what the product does so far, on files that come with it.

Runs the same code as ``karpenter solve``, on a small deployment and a pod with a slip in it, and as ``karpenter
convert``, on the default Provisioner of many clusters and on a copy with a slip in it. Needs no network, no
cluster and no AWS account, and writes no file.
"""

from __future__ import annotations

import time
from importlib import resources

import click

from karpenter.api.legacy import convert
from karpenter.api.manifests import read_manifests
from karpenter.cli import output
from karpenter.cli.convert import findings, rendered
from karpenter.cli.solve import as_table
from karpenter.scheduling import solve
from karpenter.scheduling.problems import read_catalogue, read_problem

__all__ = ["command"]

_GOOD = "default-provisioner.yaml"
_BROKEN = "broken-provisioner.yaml"
_PROBLEM = "inflate.json"


@click.command("demo")
def command() -> None:
    """Show the product at work, without a cluster or an AWS account."""
    _tell("karpenter solve decides which nodes pending pods get, at the lowest price, and why some get none.")
    _tell()
    _tell("Five pods of 1 Gi, and one that asks for 500M of cpu; c5.large, m5.large, r5.large or m5.xlarge:")
    _tell(f"$ karpenter solve {_PROBLEM}")
    _solve()
    _tell()
    _tell("karpenter convert rewrites manifests of old Karpenter versions as v1, or says why it cannot.")
    _tell()
    _tell(f"1. A v1alpha5 Provisioner and its AWSNodeTemplate ({_GOOD}):")
    _show(_example(_GOOD).decode())
    _tell()
    _tell(f"2. $ karpenter convert -f {_GOOD}")
    _convert(_GOOD)
    _tell()
    _tell(f"3. The same Provisioner with a common slip, requirements inside requirements ({_BROKEN}):")
    _show("\n".join(_example(_BROKEN).decode().splitlines()[7:13]))
    _tell()
    _tell(f"4. $ karpenter convert -f {_BROKEN}")
    _convert(_BROKEN)
    _tell()
    _tell("Shown here: the decision core and the conversion of old manifests. Try them, and the controller:")
    _tell("  karpenter controller --help")
    _tell("  karpenter solve YOUR-PROBLEM.json")
    _tell("  karpenter convert -f YOUR.yaml --diff")


def _solve() -> None:
    problems = resources.files("karpenter.cli").joinpath("problems")
    types = read_catalogue(problems.joinpath("catalogue.json").read_bytes(), "catalogue.json")
    problem = read_problem(problems.joinpath(_PROBLEM).read_bytes(), types, _PROBLEM)
    started = time.perf_counter()
    plan = solve(problem.snapshot, problem.pods)
    _show(as_table(plan, time.perf_counter() - started))


def _tell(text: str = "") -> None:
    output.write_data(f"{text}\n")


def _show(text: str) -> None:
    output.write_data("".join(f"   | {line}\n" for line in text.rstrip().splitlines()))


def _convert(name: str) -> None:
    manifests = read_manifests(_example(name), name)
    conversion = convert([manifest.object for manifest in manifests])
    _show(rendered(conversion, "yaml"))
    # On stdout for once: here the findings are part of what is shown.
    for label, line in findings(conversion, manifests):
        _tell(f"   {label} {line}" if label else f"   {line}")


def _example(name: str) -> bytes:
    return resources.files("karpenter.cli").joinpath("manifests", name).read_bytes()
