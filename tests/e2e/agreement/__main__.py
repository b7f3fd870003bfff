# SPDX-License-Identifier: Apache-2.0
"""Look for plans that Kubernetes' scheduler does not follow: ``python -m tests.e2e.agreement FIRST LAST [--crowd]``."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.e2e.agreement import Api, Nominating, Tally, agree, prepare
from tests.e2e.controlplane import ControlPlane
from tests.strategies import KINDS, random_problem


def main() -> None:
    """Carry out the random problems of some seeds in each way of nominating and print what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.agreement", description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, help="the seed after the last")
    parser.add_argument("--how", choices=list(Nominating), nargs="*", default=list(Nominating))
    parser.add_argument("--kinds", nargs="*", default=sorted(KINDS), help="what may occur in a problem")
    parser.add_argument("--crowd", action="store_true", help="let rejected pods go with the planned ones")
    chosen = parser.parse_args()
    with ControlPlane() as plane:
        asyncio.run(_hunt(plane, chosen))


async def _hunt(plane: ControlPlane, chosen: argparse.Namespace) -> None:
    totals = {how: Tally(Nominating(how)) for how in chosen.how}
    async with Api(plane) as api:
        await prepare(api, random_problem(0).namespaces)
        for seed in range(chosen.first, chosen.last):
            problem = random_problem(seed, kinds=chosen.kinds)
            for number, (how, total) in enumerate(totals.items()):
                name = f"c{seed}-{number}"
                found = await agree(api, [(name, problem)], total.how, crowd=chosen.crowd)
                total.outcomes += found.outcomes
                for line in (*found.stranded, *found.displaced, *found.surprising):
                    sys.stdout.write(f"seed {seed}, nominated {how}: {line}\n")
                sys.stdout.flush()
    sys.stdout.writelines(f"{total}\n" for total in totals.values())


if __name__ == "__main__":
    main()
