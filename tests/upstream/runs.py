# SPDX-License-Identifier: Apache-2.0
"""Runs of specs, several side by side, each on a plane that no failed spec has used before.

A spec that fails leaves objects behind, and those that follow demand a clean cluster. So each spec has a process of
its own, and a plane is given up once a spec has failed on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
from tests.upstream.tables import write_results

__all__ = ["MEASURED", "Options", "run_all"]

# Where the performance suite's own reports go.
MEASURED: Final = "measured"
# Ginkgo ends a spec at its own limit and writes its reports after that.
_REPORT_S: Final = 60.0
_LOOK_S: Final = 0.1
# Specs of the core module that serve metrics on a port of their own, the same in each process.
_ALONE: Final = "Chaos "
# Specs of the core module that expect nodes with two processors.
_SMALL: Final = "CapacityBuffer "
_MANIFESTS: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Options:
    """How specs are run.

    Attributes:
        results: Where logs and reports go.
        plane: What kind of plane they run on.
        jobs: How many planes run side by side.
        known: The specs that are expected not to pass.
        inapplicable: Whether those of them that cannot apply are run as well.
        title: Heading of the page of results.
    """

    results: Path
    plane: PlaneOptions = field(default_factory=PlaneOptions)
    jobs: int = 2
    known: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    inapplicable: bool = False
    title: str = "Upstream's suites"


def run_all(
    specs: Sequence[Spec], environ: Mapping[str, str], options: Options, say: Callable[[str], None]
) -> tuple[Verdict, ...]:
    """Run specs and return their verdicts, in the order of the specs."""
    for name in ("reports", MEASURED):
        (options.results / name).mkdir(parents=True, exist_ok=True)
    found: dict[int, Verdict] = {}
    lock = threading.Lock()
    todo = []
    for index, spec in enumerate(specs):
        listed = options.known.get((spec.suite.name, spec.name))
        if listed is not None and not listed.applies and not options.inapplicable:
            found[index] = judged(Verdict(spec.suite.name, spec.name, Outcome.FAILED), options.known)
        else:
            todo.append(index)

    def record(index: int, verdict: Verdict) -> None:
        with lock:
            found[index] = judged(verdict, options.known)
            # A run takes hours: what is known stays, however it ends.
            write_results([found[each] for each in sorted(found)], options.results, options.title)
            _say(found[index], f"{len(found)}/{len(specs)}", say)

    workers = min(options.jobs, max(len(todo), 1))
    waiting = _Waiting(specs, todo)
    with ThreadPoolExecutor(workers) as pool:
        running = [
            pool.submit(_Worker(number, waiting, environ, options, record).work) for number in range(workers)
        ]
        try:
            for each in running:
                each.result()
        except BaseException:
            waiting.stop()
            raise
    return tuple(found[index] for index in range(len(specs)))


class _Waiting:
    """The specs that wait for a plane."""

    def __init__(self, specs: Sequence[Spec], todo: Sequence[int]) -> None:
        self._specs = specs
        self._todo = list(todo)
        self.stopped = threading.Event()
        self._lock = threading.Lock()

    def take(self, needs: tuple[str, str, bool] | None = None) -> tuple[int, Spec] | None:
        """Return the first spec whose suite has these needs of a plane, and its number."""
        with self._lock:
            for index in self._todo:
                spec = self._specs[index]
                if needs in (None, spec.suite.needs):
                    self._todo.remove(index)
                    return index, spec
        return None

    def stop(self) -> None:
        """Forget all of them, and have those that run ended."""
        with self._lock:
            self._todo.clear()
        self.stopped.set()


class _Worker:
    """Takes specs and runs them on a plane of its own."""

    def __init__(
        self,
        number: int,
        waiting: _Waiting,
        environ: Mapping[str, str],
        options: Options,
        record: Callable[[int, Verdict], None],
    ) -> None:
        self._name = f"upstream-{os.getpid()}-{number}"
        self._waiting = waiting
        self._environ = environ
        self._options = options
        self._record = record

    def work(self) -> None:
        """Run specs until none is left."""
        for number in itertools.count():
            taken = self._waiting.take()
            if taken is None:
                return
            directory = self._options.results / "planes" / f"{self._name}-{number}"
            if self._use_plane(directory, *taken):
                shutil.rmtree(directory, ignore_errors=True)

    def _use_plane(self, directory: Path, index: int, spec: Spec) -> bool:
        """Run a spec, and others after it until one fails, on a new plane; return whether none failed."""
        suite = spec.suite
        plane = replace(
            self._options.plane,
            min_values_policy=suite.min_values_policy,
            ip_family=suite.ip_family,
            local_zone=suite.local_zone,
        )
        taken: tuple[int, Spec] | None = (index, spec)
        begun = time.monotonic()
        try:
            with planes.started(directory.name, plane, self._environ, directory) as environ:
                while taken is not None:
                    index, spec = taken
                    verdict = _run(spec, index, environ, self._options.results, self._waiting.stopped)
                    self._record(index, verdict)
                    taken = None
                    if verdict.outcome is Outcome.FAILED:
                        return False
                    taken = self._waiting.take(suite.needs)
        except (KarpenterError, ControlPlaneError, AssertionError, OSError) as error:
            said = " ".join(f"no plane: {error}".split())[:400]
            if taken is not None:
                seconds = time.monotonic() - begun
                self._record(index, Verdict(spec.suite.name, spec.name, Outcome.FAILED, seconds, said))
            return False
        return True


def _run(
    spec: Spec, index: int, environ: Mapping[str, str], results: Path, stopped: threading.Event
) -> Verdict:
    """Run one spec to its end and return its verdict."""
    suite = spec.suite
    stem = results / "reports" / f"{suite.name}-{index:03d}"
    report = stem.with_suffix(".json")
    report.unlink(missing_ok=True)
    given = {**environ, WAIT_VARIABLE: f"{suite.wait_s:.0f}s", "OUTPUT_DIR": str(results / MEASURED)}
    with _alone() if spec.name.startswith(_ALONE) else contextlib.nullcontext():
        return _follow(spec, stem, given, stopped)


def _follow(spec: Spec, stem: Path, given: Mapping[str, str], stopped: threading.Event) -> Verdict:
    """Run one spec's process until it ends, is stopped or takes too long."""
    suite, report = spec.suite, stem.with_suffix(".json")
    begun = time.monotonic()
    end = begun + suite.limit_s + _REPORT_S
    said = f"it wrote no report; see {stem.name}.log"
    with stem.with_suffix(".log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            _command(spec, report), cwd=spec.built.directory, env=given, stdout=log, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            if stopped.is_set() or time.monotonic() > end:
                process.kill()
                said = (
                    "it was stopped" if stopped.is_set() else f"it did not end within {suite.limit_s:.0f} s"
                )
            time.sleep(_LOOK_S)
    verdict = read_verdict(suite.name, spec.name, report)
    seconds = time.monotonic() - begun
    return verdict or Verdict(suite.name, spec.name, Outcome.FAILED, seconds, said)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other such spec of this machine runs."""
    with (Path(tempfile.gettempdir()) / "karpenter-upstream.lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _command(spec: Spec, report: Path) -> list[str]:
    command = [
        str(spec.built.program),
        "--ginkgo.no-color",
        "--ginkgo.v",
        f"--ginkgo.timeout={spec.suite.limit_s:.0f}s",
        "--ginkgo.grace-period=10s",
        f"--ginkgo.json-report={report}",
        f"--ginkgo.focus={spec.focus}",
    ]
    if spec.suite.module == CORE:
        pool = "nodepool-small.yaml" if spec.name.startswith(_SMALL) else "nodepool.yaml"
        command += [
            f"--default-nodeclass={_MANIFESTS / 'nodeclass.yaml'}",
            f"--default-nodepool={_MANIFESTS / pool}",
        ]
    return command


def _say(verdict: Verdict, progress: str, say: Callable[[str], None]) -> None:
    said = f": {verdict.message[:160]}" if verdict.outcome is Outcome.FAILED else ""
    say(f"{progress} {verdict.suite}: {verdict.outcome} in {verdict.seconds:.0f} s: {verdict.spec}{said}")
