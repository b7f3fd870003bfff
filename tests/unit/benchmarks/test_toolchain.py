# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.peers import toolchain
from benchmarks.peers.toolchain import PeerUnavailableError, build_peer, cached_peer, karpenter_version

# What a stand-in for `go` does: $5 is the program to write (go build -trimpath -buildvcs=false -o FILE .).
WORKS = 'printf "#!/bin/sh\\n" > "$5"; chmod +x "$5"; echo x >> built'
FAILS = 'echo "go: go.mod requires go >= 1.26" >&2; exit 1'
HANGS = "sleep 60"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    directory = tmp_path / "go"
    directory.mkdir()
    module = "module peer\n\ngo 1.26.6\n\nrequire (\n\tsigs.k8s.io/karpenter v1.14.1\n)\n"
    (directory / "go.mod").write_text(module, encoding="utf-8")
    (directory / "go.sum").write_text("", encoding="utf-8")
    (directory / "main.go").write_text("package main\n", encoding="utf-8")
    return directory


def environment(tmp_path: Path, go: str | None = None) -> dict[str, str]:
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    if go is not None:
        (tools / "go").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{go}\n", encoding="utf-8")
        (tools / "go").chmod(0o755)
    return {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_program_is_built_once_and_found_again(tmp_path: Path, sources: Path) -> None:
    said: list[str] = []
    environ = environment(tmp_path, WORKS)

    first = build_peer(environ, said.append, sources)
    second = build_peer(environ, said.append, sources)

    assert first == second
    assert first.is_relative_to(tmp_path / "cache")
    assert (sources / "built").read_text(encoding="utf-8") == "x\n"
    assert [line.split(" (")[0].split(" into ")[0] for line in said] == [
        "building the Go scheduler v1.14.1",
        "built the Go scheduler in 0 s",
    ]


def test_a_changed_source_is_another_program_and_a_changed_test_is_not(tmp_path: Path, sources: Path) -> None:
    environ = environment(tmp_path)
    before = cached_peer(environ, sources)

    (sources / "main_test.go").write_text("package main\n", encoding="utf-8")
    after_a_test = cached_peer(environ, sources)
    (sources / "main.go").write_text("package main // changed\n", encoding="utf-8")

    assert after_a_test == before
    assert cached_peer(environ, sources) != before


@pytest.mark.parametrize("unset", [{}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}])
def test_without_an_absolute_cache_directory_the_one_at_home_is_used(
    sources: Path, unset: Mapping[str, str]
) -> None:
    program = cached_peer({"HOME": "/home/somebody", **unset}, sources)

    assert program.is_relative_to("/home/somebody/.cache/karpenter-peers")


def test_without_go_the_error_says_which_to_install(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(PeerUnavailableError, match="Go is not installed") as failure:
        build_peer(environment(tmp_path), print, sources)

    assert "Go 1.26.6 or newer" in failure.value.hint


def test_a_failed_build_is_quoted_and_leaves_nothing_behind(tmp_path: Path, sources: Path) -> None:
    environ = environment(tmp_path, FAILS)

    with pytest.raises(PeerUnavailableError, match=r"code 1:\ngo: go\.mod requires go >= 1\.26"):
        build_peer(environ, print, sources)

    assert list(cached_peer(environ, sources).parent.iterdir()) == []


def test_a_build_that_hangs_is_ended(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(PeerUnavailableError, match=r"did not finish within 0.2 s$"):
        build_peer(environment(tmp_path, HANGS), print, sources, timeout_s=0.2)


def test_a_long_build_gives_signs_of_life(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_PROGRESS_S", 0.05)
    said: list[str] = []

    build_peer(environment(tmp_path, f"sleep 0.3; {WORKS}"), said.append, sources)

    assert any(line.startswith("still building") for line in said)


def test_the_measured_release_is_the_one_of_the_module_file() -> None:
    assert karpenter_version() == "v1.14.1"
