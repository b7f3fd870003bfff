# SPDX-License-Identifier: Apache-2.0
"""Compares the two servers by hand: ``python -m tests.e2e.conformance [--record] [NAME...]`` prints what differs.

With ``--record`` the answers of the real server are also written to the file that the faster tests read.
"""

from __future__ import annotations

import sys

import click

from tests.e2e.conformance.cases import all_requests
from tests.e2e.conformance.comparing import differences, known
from tests.e2e.conformance.recording import record
from tests.e2e.conformance.running import answers_of_both

__all__ = ["main"]


def main(names: list[str]) -> int:
    """Compares, prints and returns how many differences are not known."""
    requests = all_requests()
    real, ours = answers_of_both(requests)
    if "--record" in names:
        record(requests, real)
        names = [each for each in names if each != "--record"]
    found = differences(requests, real, ours)
    listed = known()
    for name, lines in found.items():
        if not names or any(name.startswith(each) for each in names):
            click.echo(f"{name}{' (known)' if name in listed else ''}")
            for line in lines[:8]:
                click.echo(f"    {line}")
    compared = sum(1 for request in requests if request.compared)
    click.echo(
        f"{compared} requests compared, {compared - len(found)} equal, {len(found)} differ "
        f"({len(found.keys() & listed.keys())} known)"
    )
    stale = sorted(listed.keys() - found.keys())
    if stale:
        click.echo(f"listed but equal: {', '.join(stale)}")
    return len(found.keys() - listed.keys())


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
