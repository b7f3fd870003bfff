# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kube import Client, ClusterConfig, ConfigError, ExecPlugin, Identity
from karpenter.kube.credentials import Credentials
from karpenter.kube.kinds import PODS
from tests.unit.kube.paper import HastyClock, paper_server, refuses, says

SERVER = ClusterConfig(server="http://127.0.0.1:9", ca=b"CA")

# Prints an ExecCredential with a fresh token each time, and keeps what it was asked.
PLUGIN = """
import json, os, pathlib, sys
count = pathlib.Path(sys.argv[1])
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
count.with_suffix(".asked").write_text(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({"kind": "ExecCredential", "status": {"token": f"token-{runs}", "expirationTimestamp": sys.argv[2]}}))
"""


def plugin(*arguments: str, script: str = PLUGIN, **options: bool) -> ClusterConfig:
    """A cluster whose credentials come from a script."""
    made = ExecPlugin(sys.executable, ("-c", script, *arguments), **options)  # type: ignore[arg-type]
    return replace(SERVER, identity=Identity(exec_plugin=made))


async def test_a_token_and_a_password_become_headers() -> None:
    token = Credentials(replace(SERVER, identity=Identity(token="t")), FakeClock())
    password = Credentials(replace(SERVER, identity=Identity(username="u", password="p")), FakeClock())

    assert await token.headers() == {"Authorization": "Bearer t"}
    assert await password.headers() == {"Authorization": "Basic dTpw"}
    assert await Credentials(SERVER, FakeClock()).headers() == {}
    assert not token.expire()


async def test_a_token_file_is_read_again_as_it_rotates(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", FakeClock()
    file.write_text("one\n")
    credentials = Credentials(replace(SERVER, identity=Identity(token_file=file)), clock)
    assert await credentials.headers() == {"Authorization": "Bearer one"}
    file.write_text("two")

    soon = await credentials.headers()
    clock.tick(61)
    later = await credentials.headers()
    file.unlink()
    clock.tick(61)
    without = await credentials.headers()

    assert soon == {"Authorization": "Bearer one"}
    assert later == without == {"Authorization": "Bearer two"}


async def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    credentials = Credentials(replace(SERVER, identity=Identity(token_file=tmp_path / "token")), FakeClock())

    with pytest.raises(ConfigError, match="cannot be read"):
        await credentials.headers()


async def test_a_plugin_runs_once_for_many_and_again_before_its_token_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    count = tmp_path / "count"
    expires = (clock.now() + timedelta(minutes=10)).isoformat()
    credentials = Credentials(plugin(str(count), expires, gives_cluster=True), clock)

    first = await asyncio.gather(*(credentials.headers() for _ in range(5)))
    clock.tick(9 * 60 + 1)
    second = await credentials.headers()

    assert first == [{"Authorization": "Bearer token-1"}] * 5
    assert second == {"Authorization": "Bearer token-2"}
    asked = json.loads(count.with_suffix(".asked").read_text())
    assert asked["kind"] == "ExecCredential"
    assert asked["spec"]["cluster"]["server"] == SERVER.server


async def test_a_plugin_may_give_a_certificate() -> None:
    script = (
        "import json; print(json.dumps({'status': {'clientCertificateData': 'C', 'clientKeyData': 'K'}}))"
    )
    credentials = Credentials(plugin(script=script), FakeClock())

    assert await credentials.certificate() == (b"C", b"K")
    assert await credentials.headers() == {}


async def test_a_plugin_that_gives_only_a_token_leaves_the_kubeconfigs_certificate(tmp_path: Path) -> None:
    config = plugin(str(tmp_path / "count"), "2030-01-01T00:00:00Z")
    identity = replace(config.identity, certificate=b"C", key=b"K")
    credentials = Credentials(replace(config, identity=identity), FakeClock())

    assert await credentials.certificate() == (b"C", b"K")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "import sys; print('no such profile', file=sys.stderr); sys.exit(3)",
            "exit code 3: no such profile",
        ),
        ("print('hunter2')", "printed no ExecCredential"),
        ("print('{\"status\": {}}')", "neither a token nor a certificate"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_its_output_is_not_shown(script: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        await Credentials(plugin(script=script), FakeClock()).headers()

    assert "hunter2" not in str(caught.value)


async def test_a_plugin_that_is_not_installed_gives_its_own_hint() -> None:
    missing = ExecPlugin("/nowhere/aws", install_hint="install the AWS CLI")

    with pytest.raises(ConfigError, match="cannot be started") as caught:
        await Credentials(replace(SERVER, identity=Identity(exec_plugin=missing)), FakeClock()).headers()

    assert caught.value.hint == "install the AWS CLI"


async def test_a_plugin_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karpenter.kube.credentials._EXEC_TIMEOUT_S", 0.2)

    with pytest.raises(ConfigError, match="no answer within"):
        await Credentials(plugin(script="import time; time.sleep(60)"), FakeClock()).headers()


async def test_after_a_401_the_plugin_is_asked_for_another_token(tmp_path: Path) -> None:
    config = plugin(str(tmp_path / "count"), "2030-01-01T00:00:00Z")
    async with paper_server() as paper:
        paper.next(refuses(401), says({"metadata": {"name": "web"}}))
        async with Client(replace(config, server=paper.url), clock=HastyClock()) as client:
            await client.get(PODS, "web", "shop")

    assert [seen.headers["Authorization"] for seen in paper.seen] == ["Bearer token-1", "Bearer token-2"]
