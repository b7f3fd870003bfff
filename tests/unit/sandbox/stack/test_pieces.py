# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.stack.home import Home
from karpenter.sandbox.stack.manifests import default_pool, definitions, storage_class
from karpenter.sandbox.stack.pieces import FIRST, pieces
from karpenter.sandbox.stack.record import Options, Record


def a_record(**options: Any) -> Record:
    made = Options(**options)
    ports = {name: 1000 + number for number, name in enumerate(FIRST)}
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
        "system-node",
    ]


def test_the_token_is_not_on_a_command_line(home: Home) -> None:
    made = pieces(home, a_record())

    assert all("secret" not in word for each in made for word in each.arguments)
    assert made[0].environ["KARPENTER_SANDBOX_TOKEN"] == "secret"  # noqa: S105


def test_everything_listens_on_loopback_only(home: Home) -> None:
    assert all("//127.0.0.1:" in each.address for each in pieces(home, a_record()) if each.address)


@pytest.mark.parametrize(
    ("speed", "grace", "lease"),
    [(1, "40000ms", "10000ms"), (4, "10000ms", "2500ms"), (500, "8000ms", "2000ms")],
)
def test_a_speed_shortens_timeouts_but_not_below_what_a_busy_machine_keeps(
    home: Home, speed: float, grace: str, lease: str
) -> None:
    found = {each.name: each.arguments for each in pieces(home, a_record(speed=speed))}

    assert flag(found["ec2"], "--speed") == f"{speed:g}"
    assert flag(found["workloads"], "--node-grace") == grace
    assert flag(found["kubelets"], "--lease-period") == lease
    assert flag(found["system-node"], "--lease-period") == lease


def test_the_manifests_that_come_with_it_are_ours() -> None:
    assert {each["kind"] for each in definitions()} == {"CustomResourceDefinition"}
    assert [each["kind"] for each in default_pool("prod")] == ["EC2NodeClass", "NodePool"]


def test_the_pool_that_comes_with_it_is_for_the_cluster_of_that_name() -> None:
    node_class = default_pool("prod")[0]["spec"]

    assert node_class["role"] == "KarpenterNodeRole-prod"
    assert node_class["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "prod"}}]


def test_the_storage_class_is_the_default_one_and_waits_for_a_pod() -> None:
    made = storage_class()

    assert made["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    assert (made["provisioner"], made["volumeBindingMode"]) == ("ebs.csi.aws.com", "WaitForFirstConsumer")


def test_name_and_version_of_the_cluster_reach_every_program(home: Home) -> None:
    record = a_record(cluster_name="prod", kubernetes_version="1.32")
    found = {each.name: each.arguments for each in pieces(home, record)}

    assert flag(found["kube"], "--kubernetes-version") == flag(found["ec2"], "--cluster-version") == "1.32"
    assert flag(found["ec2"], "--cluster-name") == flag(found["system-node"], "--cluster-name") == "prod"
    assert flag(found["system-node"], "--kubernetes-version") == "1.32"
    assert flag(found["ec2"], "--instance-profile") == "KarpenterNodeInstanceProfile-prod"


def test_the_default_instance_profile_is_made_beside_the_one_that_notes_make(home: Home) -> None:
    settings = {"default-instance-profile": "p"}
    found = {each.name: each.arguments for each in pieces(home, a_record(settings=settings))}

    assert found["ec2"][-4:] == (
        *("--instance-profile", "KarpenterNodeInstanceProfile-sandbox"),
        *("--instance-profile", "p"),
    )


def test_a_bare_account_has_no_instance_profile(home: Home) -> None:
    record = a_record(bare=True, settings={"default-instance-profile": "p"})
    found = {each.name: each.arguments for each in pieces(home, record)}

    assert found["ec2"][-1] == "--bare"
    assert "--instance-profile" not in found["ec2"]


def test_the_system_node_runs_our_controller_or_another_program_for_the_same_pods(home: Home) -> None:
    ours, other = pieces(home, a_record())[-1], pieces(home, a_record(controller_program="/bin/other"))[-1]

    assert flag(ours.arguments, "--program") == "karpenter=karpenter"
    assert flag(other.arguments, "--program") == "karpenter=/bin/other"
    assert ours.environ["KUBECONFIG"] == str(home.kubeconfig)
    assert ours.environ["AWS_ENDPOINT_URL"] == a_record().ec2
