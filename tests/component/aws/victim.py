# SPDX-License-Identifier: Apache-2.0
"""A controller that is killed: launches claims against the model and dies at a given point, again and again.

Run as a program with one JSON argument. It loads everything once and then forks: one child per point that is ended by
``os._exit`` at that point (nothing is flushed, nothing is closed), and after it one that is left to finish, as a
restarted controller would. A point lies before and after every AWS call, every journal write and every status write;
with ``turns`` also at turns of the event loop, that is between any two awaits. What became of each claim is a file, as
its status would be. Prints one JSON line per point.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws import launching
from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.aws.journal import FileJournal, LaunchIntent
from karpenter.cloud.aws.provider import AwsProvider, AwsSettings, connect
from karpenter.cloud.errors import LaunchPendingError
from tests.component.aws.stand import CLUSTER, Model, Remembering, simple_claim

KILLED = 77


class Config(msgspec.Struct):
    """What to do."""

    url: str
    region: str
    directory: str
    pages: str
    node_class: EC2NodeClass
    claims: int
    journal: bool
    turns: tuple[int, ...] = ()
    # Safeguards to do without, to see that the sweep notices: "journal" (a journal that forgets), "token" (tokens that
    # differ each time).
    without: tuple[str, ...] = ()


class Points:
    """Counts the points that were passed, and dies at one of them."""

    def __init__(self, deadly: int) -> None:
        self.deadly = deadly
        self.passed: list[str] = []
        self.armed = False

    def reach(self, name: str) -> None:
        if not self.armed:
            return
        self.passed.append(name)
        if len(self.passed) == self.deadly:
            os._exit(KILLED)


class DeadlyAws(Remembering):
    """AWS with a point before and after every call."""

    points: Points

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        self.points.reach(f"before {operation}")
        answer = await super().call(service, operation, **parameters)
        self.points.reach(f"after {operation}")
        return answer

    async def pages(
        self, service: str, operation: str, /, **parameters: Any
    ) -> AsyncIterator[dict[str, Any]]:
        self.points.reach(f"before {operation}")
        async for page in super().pages(service, operation, **parameters):
            self.points.reach(f"after {operation}")
            yield page


class DeadlyJournal(FileJournal):
    """A journal with a point before and after every write."""

    points: Points
    forgets = False

    async def put(self, intent: LaunchIntent) -> None:
        what = "intent" if intent.assigned is None else "assignment"
        self.points.reach(f"before {what}")
        await super().put(intent)
        self.points.reach(f"after {what}")

    async def load(self) -> Sequence[LaunchIntent]:
        self.points.reach("before journal")
        found = [] if self.forgets else await super().load()
        self.points.reach("after journal")
        return found

    async def drop(self, tokens: Iterable[str]) -> None:
        await super().drop(tokens)


class DeadlyLoop(asyncio.SelectorEventLoop):
    """An event loop that dies at a turn."""

    points: Points | None = None

    def _run_once(self) -> None:
        if self.points is not None:
            self.points.reach("turn")
        super()._run_once()  # type: ignore[misc]


def statuses(directory: Path) -> dict[str, str]:
    """Which claim has which machine, as written."""
    return {path.name: path.read_text() for path in directory.glob("*") if path.suffix != ".draft"}


async def control(
    config: Config, aws: DeadlyAws, points: Points, scope: int, *, by_turn: bool = False
) -> None:
    """Give every claim its machine and write that down, as a controller does."""
    home = Path(config.directory) / str(scope)
    written = home / "status"
    written.mkdir(parents=True, exist_ok=True)
    aws.points = points
    journal = DeadlyJournal(home / "journal")
    journal.points = points
    journal.forgets = "journal" in config.without
    provider = await connect(
        AwsSettings(cluster_name=CLUSTER), aws=aws, journal=journal if config.journal else None
    )
    loop = asyncio.get_running_loop()
    if by_turn and isinstance(loop, DeadlyLoop):
        # The points of calls would be counted with the turns; only turns are wanted here.
        aws.points = journal.points = Points(0)
        loop.points = points
    points.armed = True
    waiting = [simple_claim(scope * 100 + n) for n in range(config.claims)]
    await asyncio.gather(*(_one(provider, claim, config, written, aws.points) for claim in waiting))
    points.armed = False
    await provider.close()


async def _one(provider: AwsProvider, claim: Any, config: Config, written: Path, points: Points) -> None:
    final = written / claim.metadata.uid
    if final.exists():
        return
    while True:
        try:
            machine = await provider.create(claim, config.node_class)
            break
        except LaunchPendingError:
            await asyncio.sleep(0.3)
    points.reach("before status")
    draft = final.with_suffix(".draft")
    draft.write_text(machine.provider_id)
    draft.replace(final)
    points.reach("after status")


def _in_child(config: Config, aws: DeadlyAws, deadly: int, scope: int, *, by_turn: bool = False) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        points = Points(deadly)
        with asyncio.Runner(loop_factory=DeadlyLoop) as runner:
            runner.run(control(config, aws, points, scope, by_turn=by_turn))
        (Path(config.directory) / f"points-{scope}").write_text(json.dumps(points.passed))
    except BaseException as error:  # noqa: BLE001 - the parent only sees the exit code
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def main(argument: str) -> None:
    """Sweep over all points."""
    config = msgspec.json.decode(argument, type=Config)
    model = Model(config.url, config.region)
    if "token" in config.without:
        vars(launching)["launch_token"] = lambda _: f"karpenter-{uuid4().hex}"
    os.environ.update(model.environment)
    boto = BotoAws()
    for service in ("ec2", "eks", "iam", "pricing"):
        boto._client(service)
    aws = DeadlyAws(boto, pickle.loads(Path(config.pages).read_bytes()))  # noqa: S301 - our own file
    code = _in_child(config, aws, 0, 0)
    names = json.loads((Path(config.directory) / "points-0").read_text()) if code == 0 else []
    _report(model, config, 0, "none", [code], set())
    plan = [(number, name, False) for number, name in enumerate(names, start=1)]
    plan += [(number, f"turn {number}", True) for number in config.turns]
    for scope, (deadly, name, by_turn) in enumerate(plan, start=1):
        before = {each["id"] for each in model.instances()}
        killed = _in_child(config, aws, deadly, scope, by_turn=by_turn)
        finished = _in_child(config, aws, 0, scope)
        _report(model, config, scope, name, [killed, finished], before)


def _report(model: Model, config: Config, scope: int, name: str, codes: list[int], before: set[str]) -> None:
    launched = [each for each in model.instances() if each["id"] not in before]
    written = statuses(Path(config.directory) / str(scope) / "status")
    living = {each["id"] for each in launched if each["state"] in {"pending", "running"}}
    owned = {provider_id.rpartition("/")[2] for provider_id in written.values()}
    line = {
        "point": name,
        "codes": codes,
        "claims": len(written),
        "launched": len(launched),
        "living": len(living),
        "leaked": len(living - owned),
        "missing": len(owned - living),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
