# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.controlplane.binaries import COMMANDS, Binaries, build_binaries, cache_directory, find_binaries
from tests.e2e.controlplane.errors import BinariesMissingError, BuildFailedError
from tests.e2e.controlplane.progress import Progress
from tests.e2e.controlplane.toolchain import (
    MODULE_DIRECTORY,
    build_steps,
    find_go,
    kubernetes_version,
    run_steps,
)

# Stands in for the compiler: notes the call, takes its time over etcd, writes a file for each package.
FAKE_GO = """\
#!/bin/sh
echo "$PWD" >> "$FAKE_GO_CALLS"
echo some/package
[ "${PWD##*/}" != etcd ] || sleep "${FAKE_GO_SLEEP:-0}"
[ -z "$FAKE_GO_FAILS" ] || { echo "no required module provides package" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
output=$2
for each in "$@"; do
  case $each in
    .) name=etcd ;;
    k8s.io/*) name=${each##*/} ;;
    *) continue ;;
  esac
  printf '#!/bin/sh\\n' > "$output$name"
  chmod +x "$output$name"
done
"""

ROOT = Path(__file__).parents[3]


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A copy of the Go modules that a test may change."""
    return Path(shutil.copytree(MODULE_DIRECTORY, tmp_path / "modules"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty cache and a fake Go."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(FAKE_GO, encoding="utf-8")
    (tools / "go").chmod(0o755)
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FAKE_GO_CALLS": str(tmp_path / "calls"),
    }


def test_the_version_in_go_mod_is_the_version_that_is_stamped(modules: Path) -> None:
    _, kubernetes = build_steps(modules)

    flags = next(each for each in kubernetes.arguments if each.startswith("-ldflags="))
    version = kubernetes_version(modules)

    assert version == "v1.34.4"
    assert f"-X k8s.io/component-base/version.gitVersion={version} " in flags
    assert "-X k8s.io/component-base/version.gitMajor=1 " in flags
    assert "-X k8s.io/component-base/version.gitMinor=34 " in flags


def test_a_module_without_a_kubernetes_release_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module m\n", encoding="utf-8")

    with pytest.raises(BuildFailedError, match=r"does not require k8s\.io/kubernetes") as refusal:
        kubernetes_version(tmp_path)

    assert "require k8s.io/kubernetes" in refusal.value.hint


def test_every_command_is_made_by_one_step(modules: Path) -> None:
    products = [product for step in build_steps(modules) for product in step.products]

    assert sorted(products) == sorted(COMMANDS)


def test_building_twice_calls_go_once_for_each_module(environ: dict[str, str], modules: Path) -> None:
    said: list[str] = []

    first = build_binaries(environ, said.append, modules)
    second = build_binaries(environ, said.append, modules)

    assert first == second == find_binaries(environ, modules)
    assert _calls(environ) == [str(modules / "etcd"), str(modules)]
    assert [line for line in said if line.startswith("built the control plane in ")]
    assert all(os.access(first.path(command), os.X_OK) for command in COMMANDS)


def test_two_builds_at_once_build_once(environ: dict[str, str], modules: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from tests.e2e.controlplane.binaries import build_binaries\n"
        "build_binaries(os.environ, lambda text: None, Path(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", script, str(modules)]

    inherited = {**os.environ, **environ, "FAKE_GO_SLEEP": "0.5", "KUBEBUILDER_ASSETS": ""}
    both = [subprocess.Popen(command, cwd=ROOT, env=inherited) for _ in range(2)]

    assert [each.wait(timeout=15) for each in both] == [0, 0]
    assert len(_calls(environ)) == 2
    assert find_binaries(environ, modules).path("etcd").exists()


def test_a_failed_build_shows_what_go_said_and_leaves_nothing(environ: dict[str, str], modules: Path) -> None:
    environ["FAKE_GO_FAILS"] = "1"

    with pytest.raises(BuildFailedError, match=r"(?s)etcd.*exit code 1.*no required module") as failure:
        build_binaries(environ, lambda _: None, modules)

    directory = cache_directory(environ, modules)
    assert "try it by hand" in failure.value.hint
    assert [each.name for each in directory.parent.iterdir()] == [f"{directory.name}.lock"]


def test_what_a_killed_build_left_is_cleared_away(environ: dict[str, str], modules: Path) -> None:
    directory = cache_directory(environ, modules)
    left_over = directory.with_name(f"{directory.name}.partial-killed")
    left_over.mkdir(parents=True)

    build_binaries(environ, lambda _: None, modules)

    assert not left_over.exists()


def test_a_program_that_was_deleted_is_named_and_built_again(environ: dict[str, str], modules: Path) -> None:
    binaries = build_binaries(environ, lambda _: None, modules)
    binaries.path("kubectl").unlink()

    with pytest.raises(BinariesMissingError, match=r"has no kubectl\n") as refusal:
        find_binaries(environ, modules)
    again = build_binaries(environ, lambda _: None, modules)

    assert "build" in refusal.value.hint
    assert again.path("kubectl").exists()


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "etcd/go.mod", "etcd/go.sum", "etcd/main.go"])
def test_a_change_to_a_source_is_another_cache_directory(
    environ: dict[str, str], modules: Path, name: str
) -> None:
    before = cache_directory(environ, modules)

    with (modules / name).open("a", encoding="utf-8") as file:
        file.write("\n")

    assert cache_directory(environ, modules) != before
    assert cache_directory(environ, modules).parent == before.parent


def test_the_cache_is_below_home_unless_an_absolute_cache_directory_is_set() -> None:
    home = cache_directory({"HOME": "/home/ada"})

    assert home.parent == Path("/home/ada/.cache/karpenter-controlplane")
    assert cache_directory({"HOME": "/home/ada", "XDG_CACHE_HOME": "not/absolute"}) == home
    assert cache_directory({"HOME": "/home/ada", "XDG_CACHE_HOME": "/c"}).is_relative_to("/c")
    assert home.name.startswith("v1.34.4-")


def test_kubebuilder_assets_comes_before_the_cache(environ: dict[str, str], tmp_path: Path) -> None:
    assets = _assets(tmp_path / "assets", *COMMANDS)
    environ["KUBEBUILDER_ASSETS"] = str(assets)

    assert find_binaries(environ) == build_binaries(environ, lambda _: None) == Binaries(assets)
    assert not Path(environ["FAKE_GO_CALLS"]).exists()


def test_what_kubebuilder_assets_lacks_is_named_and_not_built(
    environ: dict[str, str], tmp_path: Path
) -> None:
    assets = _assets(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")
    environ["KUBEBUILDER_ASSETS"] = str(assets)

    for attempt in (find_binaries, lambda each: build_binaries(each, lambda _: None)):
        with pytest.raises(
            BinariesMissingError, match=r"no kube-controller-manager, kube-scheduler\n"
        ) as refusal:
            attempt(environ)
        assert "unset KUBEBUILDER_ASSETS" in refusal.value.hint


def test_without_go_the_error_says_so_and_how_to_go_on(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.e2e.controlplane.binaries.find_go", lambda _: None)

    with pytest.raises(BinariesMissingError, match="Go is not installed") as refusal:
        build_binaries(environ, lambda _: None)

    assert "install Go" in refusal.value.hint
    assert "KUBEBUILDER_ASSETS" in str(refusal.value)
    assert not (tmp_path / "cache").exists()


def test_go_is_found_in_the_path_then_in_goroot_then_in_the_usual_place(
    environ: dict[str, str], tmp_path: Path
) -> None:
    root = _assets(tmp_path / "root" / "bin", "go").parent
    usual = _assets(tmp_path / "usual", "go") / "go"

    assert find_go({**environ, "GOROOT": str(root)}, usual) == tmp_path / "tools" / "go"
    assert find_go({"PATH": "", "GOROOT": str(root)}, usual) == root / "bin" / "go"
    assert find_go({"PATH": ""}, usual) == usual
    assert find_go({"PATH": ""}, tmp_path / "nowhere") is None


def test_a_long_build_says_how_long_it_has_taken_and_where_it_is(
    environ: dict[str, str], modules: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    environ["FAKE_GO_SLEEP"] = "0.5"
    go = find_go(environ)
    assert go is not None

    run_steps(go, build_steps(modules), tmp_path, environ, Progress(said.append, quiet_s=0.3))

    assert [line.strip().partition(" s  ")[2] for line in said] == [
        "1/2 etcd: some/package",
        "1/2 etcd: done",
        "2/2 Kubernetes v1.34.4: done",
    ]


def _calls(environ: dict[str, str]) -> list[str]:
    return Path(environ["FAKE_GO_CALLS"]).read_text(encoding="utf-8").splitlines()


def _assets(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch(mode=0o755)
    return directory
