# SPDX-License-Identifier: Apache-2.0
"""Runs of specs, several side by side, each on a plane that no failed spec has used before.

A spec that fails leaves objects behind, and those that follow demand a clean cluster. So each spec has a process of
its own, and a plane is given up once a spec has failed on it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from karpenter.errors import KarpenterError
from tests.e2e.controlplane import ControlPlaneError
from tests.upstream import planes
from tests.upstream.planes import PlaneOptions
from tests.upstream.reports import Known, Outcome, Verdict, judged, read_verdict
from tests.upstream.sources import WAIT_VARIABLE
from tests.upstream.specs import Spec
from tests.upstream.suites import CORE

__all__ = ["MEASURED", "Options", "run_all"]

# Where the performance suite's own reports go.
MEASURED: Final = "measured"
# Ginkgo ends a spec at its own limit and writes its reports after that.
_REPORT_S: Final = 60.0
_MANIFESTS: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Options:
    """How specs are run.

    Attributes:
        results: Where logs and reports go.
        plane: What kind of plane they run on.
        jobs: How many planes run side by side.
        known: The specs that are expected not to pass.
        skip_known: Whether these are left out.
    """

    results: Path
    plane: PlaneOptions = field(default_factory=PlaneOptions)
    jobs: int = 2
    known: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    skip_known: bool = False


def run_all(
    specs: Sequence[Spec], environ: Mapping[str, str], options: Options, say: Callable[[str], None]
) -> tuple[Verdict, ...]:
    """Run specs and return their verdicts, in the order of the specs."""
    for name in ("reports", MEASURED):
        (options.results / name).mkdir(parents=True, exist_ok=True)
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    found: dict[int, Verdict] = {}
    for index, spec in enumerate(specs):
        listed = options.known.get((spec.suite.name, spec.name))
        if listed is not None and options.skip_known:
            found[index] = judged(Verdict(spec.suite.name, spec.name, Outcome.FAILED), options.known)
        else:
            todo.put(index)

    def record(index: int, verdict: Verdict) -> None:
        found[index] = judged(verdict, options.known)
        _say(found[index], f"{len(found)}/{len(specs)}", say)

    workers = min(options.jobs, max(todo.qsize(), 1))
    with ThreadPoolExecutor(workers) as pool:
        running = [
            pool.submit(_Worker(number, specs, environ, options, record).work, todo)
            for number in range(workers)
        ]
        for each in running:
            each.result()
    return tuple(found[index] for index in range(len(specs)))


class _Worker:
    """Takes specs from a queue and runs them on a plane of its own."""

    def __init__(
        self,
        number: int,
        specs: Sequence[Spec],
        environ: Mapping[str, str],
        options: Options,
        record: Callable[[int, Verdict], None],
    ) -> None:
        self._name = f"upstream-{os.getpid()}-{number}"
        self._specs = specs
        self._environ = environ
        self._options = options
        self._record = record
        self._planes = 0

    def work(self, todo: queue.SimpleQueue[int]) -> None:
        """Run specs until none is left."""
        while not todo.empty():
            directory = self._options.results / "planes" / f"{self._name}-{self._planes}"
            self._planes += 1
            if self._use_plane(todo, directory):
                shutil.rmtree(directory, ignore_errors=True)

    def _use_plane(self, todo: queue.SimpleQueue[int], directory: Path) -> bool:
        """Run specs on one plane until one fails or none is left; return whether none failed."""
        name = directory.name
        begun = time.monotonic()
        try:
            with planes.started(name, self._options.plane, self._environ, directory) as environ:
                return self._run_until_failure(todo, environ)
        except (KarpenterError, ControlPlaneError, AssertionError, OSError) as error:
            # The next spec is the one that has to do without a plane.
            with contextlib.suppress(queue.Empty):
                index = todo.get_nowait()
                spec = self._specs[index]
                said = " ".join(f"no plane: {error}".split())[:400]
                seconds = time.monotonic() - begun
                self._record(index, Verdict(spec.suite.name, spec.name, Outcome.FAILED, seconds, said))
            return False

    def _run_until_failure(self, todo: queue.SimpleQueue[int], environ: Mapping[str, str]) -> bool:
        with contextlib.suppress(queue.Empty):
            while True:
                index = todo.get_nowait()
                verdict = _run(self._specs[index], index, environ, self._options.results)
                self._record(index, verdict)
                if verdict.outcome is Outcome.FAILED:
                    return False
        return True


def _run(spec: Spec, index: int, environ: Mapping[str, str], results: Path) -> Verdict:
    """Run one spec to its end and return its verdict."""
    suite = spec.suite
    stem = results / "reports" / f"{suite.name}-{index:03d}"
    report = stem.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = [
        str(spec.built.program),
        "--ginkgo.no-color",
        "--ginkgo.v",
        f"--ginkgo.timeout={suite.limit_s:.0f}s",
        "--ginkgo.grace-period=10s",
        f"--ginkgo.json-report={report}",
        f"--ginkgo.focus={spec.focus}",
    ]
    if suite.module == CORE:
        command += [
            f"--default-nodeclass={_MANIFESTS / 'nodeclass.yaml'}",
            f"--default-nodepool={_MANIFESTS / 'nodepool.yaml'}",
        ]
    begun = time.monotonic()
    said = f"it wrote no report; see {stem.name}.log"
    with stem.with_suffix(".log").open("w", encoding="utf-8") as log:
        try:
            subprocess.run(
                command,
                cwd=spec.built.directory,
                env={**environ, WAIT_VARIABLE: f"{suite.wait_s:.0f}s", "OUTPUT_DIR": str(results / MEASURED)},
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=suite.limit_s + _REPORT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"it did not end within {suite.limit_s + _REPORT_S:.0f} s"
    verdict = read_verdict(suite.name, spec.name, report)
    seconds = time.monotonic() - begun
    return verdict or Verdict(suite.name, spec.name, Outcome.FAILED, seconds, said)


def _say(verdict: Verdict, progress: str, say: Callable[[str], None]) -> None:
    said = f": {verdict.message[:160]}" if verdict.outcome is Outcome.FAILED else ""
    say(f"{progress} {verdict.suite}: {verdict.outcome} in {verdict.seconds:.0f} s: {verdict.spec}{said}")
