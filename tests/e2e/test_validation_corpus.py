# SPDX-License-Identifier: Apache-2.0
"""Our validation beside the real one: every case of the corpus gets the same verdict and the same fields from both."""

from __future__ import annotations

from functools import partial
from importlib import resources
from typing import Any

import pytest

from karpenter.api.schema import Definition, load_crds
from tests.corpus.cases import CASES, ValidationCase
from tests.e2e.controlplane import ControlPlane, eventually
from tests.e2e.controlplane.connection import Reply

_VERDICTS = {200: "accepted", 201: "accepted", 422: "refused", 400: "unreadable"}

# What the server gives out itself, and what it keeps for itself.
_SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion")


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our definitions installed."""
    with resources.as_file(resources.files("karpenter.api.crds")) as folder:
        for file in sorted(folder.glob("*.yaml")):
            control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)
    for definition in load_crds().definitions:
        path = _path(definition)
        eventually(partial(_answers, control_plane, path), f"{path} to be served")
    return control_plane


def _path(definition: Definition) -> str:
    scope = "namespaces/default/" if definition.namespaced else ""
    return f"/apis/{definition.api_version}/{scope}{definition.plural}"


def _answers(plane: ControlPlane, path: str) -> bool:
    return plane.request("GET", path).is_success


def _is_stored_as_sent(case: ValidationCase) -> bool:
    definition = load_crds().definition(case.object["apiVersion"], case.object["kind"])
    return case.verdict == "accepted" and not case.is_second_write and definition.is_stored


def _causes(reply: Reply) -> frozenset[tuple[str, str]]:
    details = reply.json().get("details") or {}
    return frozenset((cause["field"], cause["reason"]) for cause in details.get("causes", ()))


def _content(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_FIELDS}
    if "generateName" in metadata:
        metadata.pop("name", None)
    return {**obj, "metadata": metadata}


def _created(plane: ControlPlane, definition: Definition, obj: dict[str, Any], query: str) -> Reply:
    return plane.request("POST", f"{_path(definition)}?fieldValidation=Ignore{query}", obj)


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_second_write], ids=str)
def test_the_server_and_we_agree_on_a_new_object(case: ValidationCase, served: ControlPlane) -> None:
    registry = load_crds()
    definition = registry.definition(case.object["apiVersion"], case.object["kind"])

    reply = _created(served, definition, case.object, "&dryRun=All")
    ours = case.judged(registry)

    assert _VERDICTS[reply.status] == case.verdict, reply.text
    assert _causes(reply) == case.problems if case.verdict == "refused" else True
    assert ours.accepted == reply.is_success
    assert ours.unreadable == (reply.status == 400)
    if case.verdict == "refused":
        assert {(problem.field, str(problem.type)) for problem in ours.problems} == _causes(reply)


@pytest.mark.parametrize("case", [case for case in CASES if case.is_second_write], ids=str)
def test_the_server_and_we_agree_on_a_changed_object(case: ValidationCase, served: ControlPlane) -> None:
    registry = load_crds()
    definition = registry.definition(case.object["apiVersion"], case.object["kind"])
    stored = _created(served, definition, case.object, "")
    assert stored.is_success, stored.text
    item = f"{_path(definition)}/{stored.json()['metadata']['name']}"

    try:
        sent = case.second_write(stored.json())
        where = f"{item}/{case.subresource}" if case.subresource else item
        reply = served.request("PUT", f"{where}?fieldValidation=Ignore&dryRun=All", sent)
        ours = registry.admit(sent, stored.json(), subresource=case.subresource)
    finally:
        served.request("DELETE", item)

    assert _VERDICTS[reply.status] == case.verdict, reply.text
    assert ours.accepted == reply.is_success
    if case.verdict == "refused":
        assert (
            {(problem.field, str(problem.type)) for problem in ours.problems}
            == _causes(reply)
            == case.problems
        )


@pytest.mark.parametrize("case", [case for case in CASES if _is_stored_as_sent(case)], ids=str)
def test_the_server_stores_an_object_as_we_prune_and_default_it(
    case: ValidationCase, served: ControlPlane
) -> None:
    registry = load_crds()
    definition = registry.definition(case.object["apiVersion"], case.object["kind"])

    reply = _created(served, definition, case.object, "&dryRun=All")
    ours = registry.admit(case.object)

    assert _content(reply.json()) == _content(ours.object)


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("unknown fields ")], ids=str)
def test_the_server_names_the_same_unknown_fields(case: ValidationCase, served: ControlPlane) -> None:
    registry = load_crds()
    definition = registry.definition(case.object["apiVersion"], case.object["kind"])

    reply = served.request("POST", f"{_path(definition)}?fieldValidation=Strict&dryRun=All", case.object)
    ours = registry.admit(case.object, strict=True)

    assert reply.status == 400
    assert ours.problems
    for problem in ours.problems:
        assert str(problem) in reply.json()["message"]
