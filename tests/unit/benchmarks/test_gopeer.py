# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from benchmarks.live.gopeer import GO_SOURCES, build_go_peer, build_hasty_go_peer, without_wait
from benchmarks.peers.toolchain import PeerUnavailableError

WAIT = "const commandValidationDelay = 15 * time.Second"
SOURCE = f"package disruption\n\n{WAIT}\n"
# A stand-in for `go`: `list` names the module, `build` writes a program that holds the module file it was built with.
GO = """#!/bin/sh
PATH=/usr/bin:/bin
if [ "$1" = list ]; then echo "$MODULE"; exit 0; fi
cp go.mod "$5"
chmod +x "$5"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with Go, whose cache holds the sources of the Go Karpenter, not to be written as Go has it."""
    module = tmp_path / "module"
    folders = [module / "pkg" / "controllers" / "disruption", module / "pkg" / "apis" / "crds"]
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "consolidation.go").write_text(SOURCE, encoding="utf-8")
    (folders[1] / "pools.yaml").write_text("kind: CustomResourceDefinition\n", encoding="utf-8")
    for folder in folders:
        next(folder.iterdir()).chmod(0o444)
        folder.chmod(0o555)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(GO, encoding="utf-8")
    (tools / "go").chmod(0o755)
    return {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), "MODULE": str(module)}


def test_the_hasty_build_is_the_original_without_its_wait(environ: dict[str, str]) -> None:
    said: list[str] = []

    original = build_go_peer(environ, said.append)
    hasty = build_hasty_go_peer(environ, said.append)
    again = build_hasty_go_peer(environ, said.append)

    assert hasty == again
    assert hasty.program != original.program
    assert hasty.crds == original.crds
    assert original.program.read_bytes() == (GO_SOURCES / "go.mod").read_bytes()
    assert "replace sigs.k8s.io/karpenter => ./karpenter" in hasty.program.read_text(encoding="utf-8")
    changed = original.program.parent / "hasty/karpenter/pkg/controllers/disruption/consolidation.go"
    assert changed.read_text(encoding="utf-8") == SOURCE.replace("15 *", "0 *")
    assert sum(line.startswith("built") for line in said) == 2


def test_a_release_that_waits_elsewhere_is_refused(environ: dict[str, str]) -> None:
    waiting = Path(environ["MODULE"]) / "pkg/controllers/disruption/consolidation.go"
    waiting.chmod(0o644)
    waiting.write_text("package disruption\n", encoding="utf-8")

    with pytest.raises(PeerUnavailableError, match=r"consolidation\.go of sigs.* has no line") as failure:
        build_hasty_go_peer(environ, print)

    assert "leave out the hasty sides" in failure.value.hint
    assert not any("hasty" in each.name for each in Path(environ["XDG_CACHE_HOME"]).rglob("*"))


def test_nothing_but_the_wait_is_changed() -> None:
    assert without_wait(f"a\n{WAIT}\nb\n") == "a\nconst commandValidationDelay = 0 * time.Second\nb\n"
