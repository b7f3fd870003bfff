# SPDX-License-Identifier: Apache-2.0
"""What the demo does: a Deployment grows from nothing to twelve pods and shrinks to nothing again.

Every step has a time limit. Where nodes that nobody needs stay, because nothing removes them in time, the story says so
and deletes them by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from karpenter.cli.demo.deciding import Meter
from karpenter.cli.demo.money import hourly, monthly, otherwise, total
from karpenter.cli.demo.reasons import Offer, offers_of, reasons
from karpenter.cli.demo.screen import Screen
from karpenter.cli.demo.seeing import Machine, Picture, picture
from karpenter.cli.demo.telling import Line, changes
from karpenter.errors import KarpenterError
from karpenter.sandbox.stack.calls import KubeApi, Model
from karpenter.sandbox.stack.errors import StoppedError

__all__ = ["DemoError", "Stage", "Story"]

_LOOK_S: Final = 0.25
_GROW_S: Final = 120.0
_SHRINK_S: Final = 90.0
_FILE: Final = "inflate.yaml"
_DEPLOYMENT: Final = "/apis/apps/v1/namespaces/other/deployments/inflate"
_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"


class DemoError(KarpenterError):
    """Something that the demo waited for did not happen."""


class Stage:
    """Where the story is played: the cluster, the account and the screen, looked at several times a second.

    Args:
        api: The cluster.
        model: The account.
        meter: The controller's metrics.
        screen: Where to tell what happens.
        told: Set when the user wants no more.
        kubeconfig: For kubectl, where that is installed.
    """

    def __init__(
        self,
        api: KubeApi,
        model: Model,
        meter: Meter,
        *,
        screen: Screen,
        told: threading.Event,
        kubeconfig: Path,
    ) -> None:
        self.api = api
        self._meter = meter
        self.screen = screen
        self._model = model
        self._told = told
        self._kubeconfig = kubeconfig
        self._prices: dict[str, float | None] = {}
        self.offers: list[Offer] = []
        self.now = Picture()

    def look(self) -> Picture:
        """Looks at the cluster and tells what has changed."""
        seen = self._see()
        for line in changes(self.now, seen, self._why, self._meter.last):
            self.screen.line(line)
        self.now = seen
        self.screen.update(seen)
        return seen

    def wait(self, until: Callable[[Picture], bool], limit_s: float) -> bool:
        """Looks until something is so, and tells whether it came to be within the time.

        Raises:
            StoppedError: The user wants no more.
        """
        end = time.monotonic() + limit_s
        while True:
            if until(self.look()):
                return True
            if time.monotonic() > end:
                return False
            if self._told.wait(_LOOK_S):
                raise StoppedError("stopped")

    def pause(self, seconds: float) -> None:
        """Waits; raises as ``wait``."""
        if self._told.wait(seconds):
            raise StoppedError("stopped")

    def kubectl(self, *words: str, otherwise: Callable[[], object]) -> None:
        """Shows a kubectl command and does it, with kubectl where it is installed and else by the API itself."""
        self.screen.heading(f"kubectl {' '.join(words)}")
        program = shutil.which("kubectl")
        if program is None:
            otherwise()
            return
        done = subprocess.run(  # noqa: S603 - what the user has installed, with words from here
            [program, *words],
            cwd=self._kubeconfig.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
            start_new_session=True,
        )
        if done.returncode != 0:
            raise DemoError(f"kubectl {' '.join(words)}: {done.stderr.strip() or done.returncode}")

    def _see(self) -> Picture:
        claims = self.api.items(_CLAIMS)
        instances = {each.get("status", {}).get("providerID", "").rpartition("/")[2] for each in claims}
        if instances - {""} - self._prices.keys():
            for each in self._model.state()["ec2"]["instances"]:
                self._prices[each["id"]] = each["pricePerHour"]
        leaving = any("deletionTimestamp" in each["metadata"] for each in claims)
        told = {"fieldSelector": "reason=DisruptionTerminating"}
        return picture(
            claims=claims,
            nodes=self.api.items("/api/v1/nodes"),
            pods=self.api.items("/api/v1/pods"),
            events=self.api.items("/api/v1/events", told) if leaving else (),
            prices=self._prices,
        )

    def _why(self, machine: Machine) -> Sequence[str]:
        memory = max((each.memory_bytes for each in self.now.pods or ()), default=0)
        memory = max((each.memory_bytes for each in self.now.pending), default=memory)
        return reasons(machine.instance_type, machine.planned_pods, memory, self.offers)


class Story:
    """The story of inflate: 0, 5, 12, 5, 1, 0.

    Args:
        stage: Where it is played.
        region: Whose prices count.
        directory: Where the manifests are put, for kubectl and for who wants to read them.
    """

    def __init__(self, stage: Stage, region: str, directory: Path) -> None:
        self._stage = stage
        self._screen = stage.screen
        text = files("karpenter.cli.demo").joinpath(_FILE).read_text(encoding="utf-8")
        (directory / _FILE).write_text(text, encoding="utf-8")
        self._manifests: list[dict[str, Any]] = list(yaml.safe_load_all(text))
        pool = self._manifests[0]["spec"]["template"]["spec"]["requirements"]
        types = next(each["values"] for each in pool if each["key"].endswith("instance-type"))
        node_class = EC2NodeClass(spec=EC2NodeClassSpec(ami_family="AL2023"))
        stage.offers = offers_of(types, node_class, region)
        self._peak = 0.0

    def play(self) -> None:
        """Plays all of it.

        Raises:
            DemoError: Something that must happen did not happen in time.
            StoppedError: The user wants no more.
        """
        self._prepare()
        self._grow(5)
        self._grow(12)
        self._money()
        peak = self._peak = self._stage.now.price_per_hour
        if self._shrink(5) and self._shrink(1) and self._shrink(0):
            self._screen.text()
            self._screen.text(
                f"  from {hourly(peak)} at the peak to {hourly(self._stage.now.price_per_hour)}; "
                f"kept at its peak it would cost {monthly(peak)}"
            )
        else:
            self._clear()

    def _prepare(self) -> None:
        stage = self._stage
        stage.kubectl("apply", "-f", _FILE, otherwise=lambda: stage.api.apply_all(self._manifests))
        types = ", ".join(f"{each.instance_type} {hourly(each.price_per_hour)}" for each in stage.offers)
        self._screen.line(Line("a NodePool", f"may buy {types}"))
        self._screen.line(
            Line("a Deployment", "other/inflate, no pods yet; each will ask for 1 Gi of memory")
        )
        if not stage.wait(lambda _: self._pool_is_ready(), _GROW_S):
            raise DemoError("the NodePool did not become ready", hint="see 'karpenter sandbox status'")

    def _pool_is_ready(self) -> bool:
        found = self._stage.api.get("/apis/karpenter.sh/v1/nodepools/default")
        conditions = found.get("status", {}).get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _scale(self, count: int) -> None:
        self._stage.kubectl(
            *("scale", "-n", "other", "deployment/inflate", "--replicas", str(count)),
            otherwise=lambda: self._stage.api.merge(_DEPLOYMENT, {"spec": {"replicas": count}}),
        )

    def _grow(self, count: int) -> None:
        begun = time.monotonic()
        self._scale(count)
        if not self._stage.wait(lambda seen: seen.is_quiet and seen.running == count, _GROW_S):
            raise DemoError(
                f"{self._stage.now.running} of {count} pods ran after {_GROW_S:g} s",
                hint="see 'karpenter sandbox status --name demo'",
            )
        self._screen.line(
            Line(f"{count}/{count} pods running", f"{time.monotonic() - begun:.1f} s after the command")
        )
        self._screen.table(self._stage.now)

    def _shrink(self, count: int) -> bool:
        """Scales down and tells whether the bill followed in time."""
        before = self._stage.now.price_per_hour
        self._scale(count)
        if before == self._peak:
            self._screen.note(
                "a removal is thought over: it is checked again some seconds after it was decided"
            )

        def is_done(seen: Picture) -> bool:
            return seen.is_quiet and len(seen.pods) == count and seen.price_per_hour < before - 1e-9

        if not self._stage.wait(is_done, _SHRINK_S):
            waited = f"{_SHRINK_S:g} s"
            self._screen.line(Line("no node was removed", f"within {waited}; {total(self._stage.now)}"))
            return False
        after = self._stage.now.price_per_hour
        self._screen.line(
            Line("the bill follows", f"{hourly(before)} to {hourly(after)}, {monthly(before - after)} less")
        )
        self._screen.table(self._stage.now)
        return True

    def _clear(self) -> None:
        stage = self._stage
        self._scale(0)
        stage.kubectl(
            "delete", "nodeclaims", "--all", "--wait=false", otherwise=lambda: stage.api.delete(_CLAIMS)
        )
        if not stage.wait(lambda seen: not seen.machines, _GROW_S):
            raise DemoError("nodes are still there", hint="see 'karpenter sandbox status --name demo'")

    def _money(self) -> None:
        self._screen.text()
        self._screen.text(
            f"  what it costs   {total(self._stage.now)}   (list prices; disks and traffic apart)"
        )
        for each in otherwise(self._stage.now, self._stage.offers):
            self._screen.text(f"  otherwise       {each}")
