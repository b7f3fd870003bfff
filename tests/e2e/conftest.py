# SPDX-License-Identifier: Apache-2.0
"""One real control plane for all end-to-end tests of a run, and a namespace for each test.

Every test below this directory carries the marker ``e2e`` and a longer time limit than the others. Nothing
is built here, because a build takes minutes: `make test-e2e` does it beforehand. Where the programs are
missing, the run ends with an error that names the tests that were left out; with KARPENTER_E2E_OPTIONAL=1
they are skipped, and named at the end of the run.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence

import pytest

from tests.e2e.controlplane import BinariesMissingError, ControlPlane, eventually, find_binaries
from tests.e2e.controlplane.binaries import OPTIONAL_VARIABLE
from tests.patience import patient

_LEFT_OUT = pytest.StashKey[str]()
_TEST_TIMEOUT_S = 120


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test of this directory, so that none can forget it."""
    item.add_marker(pytest.mark.e2e)
    limit = item.get_closest_marker("timeout")
    seconds = _TEST_TIMEOUT_S if limit is None else limit.args[0]
    item.add_marker(pytest.mark.timeout(patient(seconds)), append=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to begin, or leave the tests out by name, if there is no control plane to be had."""
    wanted = [item for item in session.items if item.get_closest_marker("e2e")]
    if not wanted or session.config.option.collectonly:
        return
    try:
        find_binaries(os.environ)
    except BinariesMissingError as error:
        report = _left_out(error, [item.nodeid for item in wanted])
        optional = os.environ.get(OPTIONAL_VARIABLE) == "1"
        if not optional and hasattr(session.config, "workerinput"):
            # A worker of pytest-xdist cannot end the run; its tests fail with the same words instead.
            return
        if not optional:
            raise pytest.UsageError(report) from error
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=error.message))
        session.config.stash[_LEFT_OUT] = report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Name the tests that were left out."""
    del exitstatus
    report = config.stash.get(_LEFT_OUT, "")
    if report:
        terminalreporter.section("no control plane")
        terminalreporter.write_line(report)


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real control plane of this file's own, without nodes; its logs stay in pytest's temporary directory."""
    with ControlPlane(directory=tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, named after it, in which pods can be made."""
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    control_plane.kubectl("create", "namespace", name)
    # The controller manager makes the account in its own time, and pods are refused before.
    eventually(
        lambda: control_plane.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default").is_success,
        f"the default service account of namespace {name}",
    )
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def _left_out(error: BinariesMissingError, tests: Sequence[str]) -> str:
    names = "\n".join(f"  {each}" for each in tests)
    return f"{len(tests)} end-to-end tests are left out:\n{names}\nbecause {error}"
