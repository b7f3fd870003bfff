# SPDX-License-Identifier: Apache-2.0
"""Runs of suites, several side by side, each on a plane of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from karpenter.errors import KarpenterError
from tests.upstream import planes
from tests.upstream.reports import Outcome, Verdict, read_report
from tests.upstream.sources import BuiltSuite

__all__ = ["Options", "run_all"]


@dataclass(frozen=True, slots=True)
class Options:
    """How suites are run.

    Attributes:
        results: Where logs, JSON and JUnit reports go.
        focus: A regular expression that spec names must match; empty runs all.
        jobs: How many suites run side by side.
        speed: How many times as fast the sandbox's machines boot.
        limit_s: After how long a suite is ended.
    """

    results: Path
    focus: str = ""
    jobs: int = 2
    speed: float = 10.0
    limit_s: float = 3600.0


def run_all(
    suites: Sequence[BuiltSuite], environ: Mapping[str, str], options: Options, say: Callable[[str], None]
) -> tuple[Verdict, ...]:
    """Run suites and return the verdicts of all their specs, in the order of the suites."""
    options.results.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(_run, suite, environ, options, say) for suite in suites]
        return tuple(verdict for each in running for verdict in each.result())


def _run(
    built: BuiltSuite, environ: Mapping[str, str], options: Options, say: Callable[[str], None]
) -> tuple[Verdict, ...]:
    name = built.suite.name
    started = time.monotonic()
    try:
        with planes.sandbox(name, environ, speed=options.speed) as given:
            planes.prepare(given)
            say(f"{name}: running")
            problem = _specs(built, given, options)
    except KarpenterError as error:
        return (Verdict(name, "(the plane)", Outcome.FAILED, time.monotonic() - started, error.message),)
    verdicts = read_report(name, options.results / f"{name}.json")
    if problem or not verdicts:
        said = problem or f"the suite wrote no report; see {name}.log"
        verdicts += (Verdict(name, "(the suite)", Outcome.FAILED, time.monotonic() - started, said),)
    passed = sum(each.outcome is Outcome.PASSED for each in verdicts)
    say(f"{name}: {passed} of {len(verdicts)} specs passed after {time.monotonic() - started:.0f} s")
    return verdicts


def _specs(built: BuiltSuite, environ: Mapping[str, str], options: Options) -> str:
    """Run a suite's program to its end; return why it was ended early, or nothing."""
    name = built.suite.name
    for ending in ("json", "xml"):
        (options.results / f"{name}.{ending}").unlink(missing_ok=True)
    command = [
        str(built.program),
        "--ginkgo.no-color",
        f"--ginkgo.timeout={options.limit_s:.0f}s",
        f"--ginkgo.json-report={options.results / name}.json",
        f"--ginkgo.junit-report={options.results / name}.xml",
        *([f"--ginkgo.focus={options.focus}"] if options.focus else []),
    ]
    with (options.results / f"{name}.log").open("w", encoding="utf-8") as log:
        try:
            subprocess.run(
                command,
                cwd=built.directory,
                env=dict(environ),
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ginkgo ends at its own limit and writes its reports after that.
                timeout=options.limit_s + 120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the suite did not end within {options.limit_s + 120:.0f} s"
    return ""
