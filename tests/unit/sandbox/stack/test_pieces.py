# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.manifests import default_pool, definitions
from karpenter.sandbox.stack.pieces import metrics_addresses, pieces, port_names
from karpenter.sandbox.stack.record import Options, Record


def a_record(**options: float) -> Record:
    made = Options(**options)  # type: ignore[arg-type]
    ports = {name: 1000 + number for number, name in enumerate(port_names(made))}
    return Record(name="try-1", options=made, token="secret", ports=ports)


def flag(words: tuple[str, ...], name: str) -> str:
    """Give the value of a flag, written in one word or in two."""
    for position, word in enumerate(words):
        if word == name:
            return words[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    raise AssertionError(f"{name} is not among {words}")


def test_the_api_and_the_model_come_first(home: Home) -> None:
    assert [each.name for each in pieces(home, a_record())] == [
        "kube",
        "ec2",
        "workloads",
        "kubelets",
        "controller",
    ]


def test_the_token_is_not_on_a_command_line(home: Home) -> None:
    made = pieces(home, a_record())

    assert all("secret" not in word for each in made for word in each.arguments)
    assert made[0].environ["KARPENTER_SANDBOX_TOKEN"] == "secret"  # noqa: S105


def test_replicas_have_ports_of_their_own(home: Home) -> None:
    record = a_record(replicas=2)
    found = {each.name: each for each in pieces(home, record)}

    assert len(set(record.ports.values())) == len(record.ports) == 6
    assert found["controller"].address != found["controller-2"].address
    assert len(set(metrics_addresses(record))) == 2


def test_everything_listens_on_loopback_only(home: Home) -> None:
    controller = pieces(home, a_record())[-1]

    assert flag(controller.arguments, "--bind-address") == "127.0.0.1"
    assert all("//127.0.0.1:" in each.address for each in pieces(home, a_record(replicas=2)) if each.address)


@pytest.mark.parametrize(
    ("speed", "grace", "lease", "registration"),
    [
        (1, "40000ms", "10000ms", "900000ms"),
        (4, "10000ms", "2500ms", "225000ms"),
        (500, "8000ms", "2000ms", "10000ms"),
    ],
)
def test_a_speed_shortens_timeouts_but_not_below_what_a_busy_machine_keeps(
    home: Home, speed: float, grace: str, lease: str, registration: str
) -> None:
    found = {each.name: each.arguments for each in pieces(home, a_record(speed=speed))}

    assert flag(found["ec2"], "--speed") == f"{speed:g}"
    assert flag(found["workloads"], "--node-grace") == grace
    assert flag(found["kubelets"], "--lease-period") == lease
    assert flag(found["controller"], "--registration-timeout") == registration


def test_the_manifests_that_come_with_it_are_ours() -> None:
    assert {each["kind"] for each in definitions()} == {"CustomResourceDefinition"}
    assert [each["kind"] for each in default_pool()] == ["EC2NodeClass", "NodePool"]
