# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from karpenter.errors import KarpenterError
from tests.upstream import sources
from tests.upstream.sources import RELEASE, build
from tests.upstream.suites import Suite, chosen

COMMON = "test/pkg/environment/common"
ENVIRONMENT = "func New() {\n\tSetDefaultEventuallyTimeout(16 * time.Minute)\n}\n"
EXPECTATIONS = "a(12*time.Minute)\nb(time.Minute*15)\nc(time.Minute)\n"
SCHEDULING = (
    "Expect(lo.Keys(selectors)).To(ContainElements(append(labels, more...)))\nExpect(node).To(Exist())\n"
)


@pytest.fixture
def suite() -> Suite:
    return chosen(["drift"])[0]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which Go is a script that knows one module and notes what it builds."""
    module = tmp_path / "gomodcache" / "provider"
    for name, text in {
        "go.mod": "module provider\n",
        f"{COMMON}/environment.go": ENVIRONMENT,
        f"{COMMON}/expectations.go": EXPECTATIONS,
        "test/suites/scheduling/scheduling.go": SCHEDULING,
    }.items():
        path = module / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in (module, *module.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    answer = json.dumps({"Dir": str(module)})
    go.write_text(
        "#!/bin/sh\n"
        f'case $1 in mod) echo \'{answer}\';; test) echo "$6" >> "{tmp_path}/built"; '
        'printf "#!/bin/sh\\n" > "$5"; chmod +x "$5";; esac\n'
    )
    go.chmod(0o755)
    return {
        "PATH": f"{go.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def test_a_suite_is_built_once_in_a_copy_that_waits_as_the_environment_says(
    suite: Suite, environ: dict[str, str], tmp_path: Path
) -> None:
    said: list[str] = []
    first = build(suite, environ, said.append)
    again = build(suite, environ, said.append)

    assert first.program == again.program
    assert (tmp_path / "built").read_text().split() == ["./test/suites/drift"]
    copy = first.program.parents[1]
    assert "SetDefaultEventuallyTimeout(waiting())" in (copy / COMMON / "environment.go").read_text()
    assert (copy / COMMON / "expectations.go").read_text() == "a(waiting())\nb(waiting())\nc(time.Minute)\n"
    assert 'os.Getenv("KARPENTER_SUITES_WAIT")' in (copy / COMMON / "waiting.go").read_text()
    assert (copy / "go.mod").read_text().endswith(f"sigs.k8s.io/karpenter {RELEASE}\n")


def test_the_check_that_counts_over_all_specs_of_a_process_is_left_out_alone(
    suite: Suite, environ: dict[str, str]
) -> None:
    copy = build(suite, environ, lambda _: None).program.parents[1]

    assert (copy / "test/suites/scheduling/scheduling.go").read_text() == (
        "_ = selectors\nExpect(node).To(Exist())\n"
    )


def test_a_release_without_the_expected_places_is_an_error(
    suite: Suite, environ: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "gomodcache" / "provider" / COMMON / "environment.go"
    path.chmod(0o644)
    path.write_text("nothing\n")

    with pytest.raises(KarpenterError, match=r"environment.go of v[\d.]+ has nothing that matches"):
        build(suite, environ, lambda _: None)


def test_without_go_there_is_a_hint(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "find_go", lambda _: None)

    with pytest.raises(KarpenterError, match="Go is not installed"):
        build(suite, {}, lambda _: None)
