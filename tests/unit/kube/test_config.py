# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.kube import ConfigError, in_cluster, load_config, read_kubeconfig


def kubeconfig(path: Path, **parts: Any) -> Path:
    """Write a kubeconfig with one context, changed by parts."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    document.update(parts)
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_leads_to_server_and_identity(tmp_path: Path) -> None:
    config = read_kubeconfig([kubeconfig(tmp_path / "config")])

    assert config.server == "https://10.0.0.1:6443"
    assert config.identity.token == "secret"  # noqa: S105
    assert config.namespace == "team"
    assert config.verify_tls
    assert "context here" in config.source


def test_a_password_in_the_address_is_taken_out_of_it(tmp_path: Path) -> None:
    cluster = {"server": "http://sandbox:se%2Fcret@127.0.0.1:8080/prefix"}
    path = kubeconfig(
        tmp_path / "config",
        clusters=[{"name": "c", "cluster": cluster}],
        users=[{"name": "u", "user": {}}],
    )

    config = read_kubeconfig([path])

    assert config.server == "http://127.0.0.1:8080/prefix"
    assert (config.identity.username, config.identity.password) == ("sandbox", "se/cret")


def test_certificates_come_as_data_or_as_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_bytes(b"CERT")
    data = base64.b64encode(b"CA").decode()
    path = kubeconfig(
        tmp_path / "config",
        clusters=[
            {
                "name": "c",
                "cluster": {
                    "server": "https://h",
                    "certificate-authority-data": data,
                    "tls-server-name": "api",
                    "insecure-skip-tls-verify": True,
                    "proxy-url": "http://proxy:3128",
                },
            }
        ],
        users=[
            {
                "name": "u",
                "user": {
                    "client-certificate": "client.pem",
                    "client-key-data": base64.b64encode(b"KEY").decode(),
                    "tokenFile": "token",
                },
            }
        ],
    )

    config = read_kubeconfig([path])

    assert (config.ca, config.identity.certificate, config.identity.key) == (b"CA", b"CERT", b"KEY")
    assert config.identity.token_file == tmp_path / "token"
    assert not config.verify_tls
    assert (config.tls_server_name, config.proxy) == ("api", "http://proxy:3128")


def test_several_files_are_merged_and_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "one", clusters=[], users=[{"name": "u", "user": {"token": "first"}}])
    second = kubeconfig(tmp_path / "two")

    config = load_config(environ={"KUBECONFIG": f"{first}:{second}:{tmp_path / 'absent'}"})

    assert config.server == "https://10.0.0.1:6443"
    assert config.identity.token == "first"  # noqa: S105


def test_the_home_directory_is_looked_at_before_the_pods_account(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config")

    config = load_config(environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.1.1.1"})

    assert config.server == "https://10.0.0.1:6443"


def test_a_path_that_was_asked_for_wins_over_the_environment(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "mine")

    assert load_config(path, environ={"KUBECONFIG": "/nowhere"}).server == "https://10.0.0.1:6443"


def test_another_context_can_be_chosen_and_a_missing_one_names_those_that_exist(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config")

    with pytest.raises(ConfigError, match='no context "there"') as caught:
        read_kubeconfig([path], "there")

    assert caught.value.hint == "it has: here"


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(b"CA")
    (tmp_path / "namespace").write_text("karpenter\n")

    config = in_cluster(
        {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, directory=tmp_path
    )

    assert config.server == "https://[fd00::1]:6443"
    assert config.identity.token_file == tmp_path / "token"
    assert (config.ca, config.namespace) == (b"CA", "karpenter")


def test_a_pod_without_a_token_is_told_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token is missing") as caught:
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, directory=tmp_path)

    assert "automountServiceAccountToken" in caught.value.hint


def test_outside_a_pod_the_pods_account_is_refused() -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster({})


def test_in_a_pod_without_kubeconfig_the_account_is_tried(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token is missing"):
        load_config(environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"})


def test_nothing_at_all_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig was found") as caught:
        load_config(environ={"HOME": str(tmp_path)})

    assert "KUBECONFIG" in caught.value.hint


def _user(user: dict[str, Any]) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": user}]}


def _cluster(cluster: dict[str, Any]) -> dict[str, Any]:
    return {"clusters": [{"name": "c", "cluster": cluster}]}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"current-context": ""}, "names no current context"),
        (_cluster({"server": "10.0.0.1"}), "not an http"),
        (_cluster({"server": "https://h", "proxy-url": "socks5://p"}), "only http and https proxies"),
        (_cluster({"server": "https://h", "certificate-authority-data": "%"}), "is not base64"),
        (_cluster({"server": "https://h", "certificate-authority": "absent.crt"}), r"absent\.crt"),
        (_user({"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (_user({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}), "exec.apiVersion"),
        (_user({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), "exec.command is empty"),
        ({"users": ["odd"]}, 'no user "u"'),
        ({"clusters": {}}, 'no cluster "c"'),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, parts: dict[str, Any], words: str) -> None:
    path = kubeconfig(tmp_path / "config", **parts)

    with pytest.raises(ConfigError, match=words):
        read_kubeconfig([path])


@pytest.mark.parametrize("text", ["a: [", "- just\n- a list\n"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConfigError, match=str(path)):
        read_kubeconfig([path])


def test_a_path_without_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        read_kubeconfig([tmp_path / "absent"])


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", contexts=[{"name": "here", "context": {"cluster": "c"}}])

    assert read_kubeconfig([path]).identity.token == ""


def test_an_exec_plugin_keeps_arguments_environment_and_its_place(tmp_path: Path) -> None:
    exec_entry = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "./bin/get-token",
        "args": ["--cluster", "x"],
        "env": [{"name": "AWS_PROFILE", "value": "dev"}],
        "installHint": "brew install it",
        "provideClusterInfo": True,
    }
    path = kubeconfig(tmp_path / "config", **_user({"exec": exec_entry}))

    plugin = read_kubeconfig([path]).identity.exec_plugin

    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin" / "get-token")
    assert plugin.arguments == ("--cluster", "x")
    assert plugin.environment == {"AWS_PROFILE": "dev"}
    assert plugin.gives_cluster


def test_a_bare_plugin_name_is_left_to_the_path(tmp_path: Path) -> None:
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}
    path = kubeconfig(tmp_path / "config", **_user({"exec": entry}))

    plugin = read_kubeconfig([path]).identity.exec_plugin

    assert plugin is not None
    assert plugin.command == "aws"
