# SPDX-License-Identifier: Apache-2.0
"""The definitions on a real API server: accepted, served, judging, and losing nothing between versions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from karpenter.api import crds
from karpenter.api.crds.kinds import KINDS, NODE_POOL
from karpenter.api.crds.vocabulary import Kind
from tests.e2e.controlplane import ControlPlane, Reply, eventually
from tests.unit.api.crds.cases import ACCEPTED, REFUSED, VALID, Refused, changed

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
PLURALS = {kind.name: kind.plural for kind in KINDS}
BY_PLURAL = {kind.plural: kind for kind in KINDS}
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our definitions established."""
    definitions = crds.read_all()
    for crd in definitions.values():
        control_plane.request("POST", CRDS, crd)
    for name in definitions:
        eventually(partial(_is_established, control_plane, name), f"{name} is established")
    for manifest in VALID.values():
        what = f"{manifest['apiVersion']} {manifest['kind']} is served"
        eventually(partial(_is_served, control_plane, manifest), what)
    return control_plane


@pytest.fixture(autouse=True)
def no_leftovers(plane: ControlPlane) -> Iterator[None]:
    """No object of our kinds stays behind after a test."""
    yield
    for kind in KINDS:
        where = f"/apis/{kind.group}/{kind.versions[0].name}/{_scope(kind)}{kind.plural}"
        plane.request("DELETE", where)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_every_definition_is_accepted_without_complaint(plane: ControlPlane, kind: Kind) -> None:
    assert _condition(plane, kind.crd_name, "NamesAccepted") == "True"
    assert _condition(plane, kind.crd_name, "NonStructuralSchema") is None


@pytest.mark.parametrize("base", VALID)
def test_a_valid_object_is_stored_as_written(plane: ControlPlane, base: str) -> None:
    written = changed(base)

    reply = _create(plane, written, strict=True)

    assert reply.status == 201, reply.text
    assert _is_within(written["spec"], reply.json()["spec"])


@pytest.mark.parametrize(("base", "path", "value"), ACCEPTED)
def test_a_near_relative_of_a_refused_object_is_accepted(
    plane: ControlPlane, base: str, path: str, value: Any
) -> None:
    reply = _create(plane, changed(base, path, value), strict=True, dry_run=True)

    assert reply.status == 201, reply.text


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_each_rule_refuses_what_it_is_there_for(plane: ControlPlane, case: Refused) -> None:
    reply = _create(plane, changed(case.base, case.path, case.value), dry_run=True)

    assert reply.status == 422, reply.text
    assert case.message in reply.json()["message"]


def test_kubectl_lists_our_kinds_by_category_and_short_name(plane: ControlPlane) -> None:
    listed = plane.kubectl("api-resources", "--categories", "karpenter", "--no-headers").stdout

    rows = {line.split()[0]: line for line in listed.splitlines()}
    assert set(rows) == set(BY_PLURAL) - {"capacitybuffers"}
    assert "ec2nc,ec2ncs" in rows["ec2nodeclasses"]
    assert "karpenter.sh/v1 " in rows["nodepools"]
    for short in ("ec2nc", "ec2ncs", "overlays", "cb"):
        plane.kubectl("get", short)


def test_kubectl_get_shows_the_columns_people_know(plane: ControlPlane) -> None:
    for base in ("nodepool", "nodeclaim", "ec2nodeclass"):
        _create(plane, changed(base, name="shop"))
    labels = {
        "node.kubernetes.io/instance-type": "m5.large",
        "karpenter.sh/capacity-type": "spot",
        "topology.kubernetes.io/zone": "us-east-1a",
    }
    _patch(plane, changed("nodeclaim", name="shop"), {"metadata": {"labels": labels}})
    _patch(
        plane,
        changed("nodeclaim", name="shop"),
        {"status": {"nodeName": "ip-1", "conditions": [READY]}},
        "status",
    )
    _patch(
        plane, changed("nodepool", name="shop"), {"status": {"nodes": 3, "resources": {"cpu": "6"}}}, "status"
    )

    claims, pools, classes = (
        plane.kubectl("get", plural, "-o", "wide").stdout.splitlines()
        for plural in ("nodeclaims", "nodepools", "ec2nodeclasses")
    )

    columns = "NAME TYPE CAPACITY ZONE NODE READY AGE IMAGEID ID NODEPOOL NODECLASS DRIFTED"
    assert claims[0].split() == columns.split()
    assert claims[1].split()[:6] == ["shop", "m5.large", "spot", "us-east-1a", "ip-1", "True"]
    assert pools[0].split() == ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"]
    assert pools[1].split()[:3] == ["shop", "default", "3"]
    assert classes[0].split() == ["NAME", "READY", "AGE", "ROLE"]


def test_a_static_pool_scales_by_the_scale_subresource(plane: ControlPlane) -> None:
    _create(plane, changed("nodepool", "spec.replicas", 2, name="static"))
    _patch(plane, changed("nodepool", name="static"), {"status": {"nodes": 2}}, "status")

    plane.kubectl("scale", "nodepool/static", "--replicas=5")

    scale = plane.request("GET", "/apis/karpenter.sh/v1/nodepools/static/scale").json()
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (5, 2)


@pytest.mark.parametrize(
    ("base", "first", "then", "message"),
    [
        ("nodeclaim", {}, {"spec": {"expireAfter": "1h"}}, "spec is immutable"),
        ("nodepool", {}, {"spec": {"replicas": 1}}, "between static"),
        ("nodepool", {"replicas": 1}, {"spec": {"weight": 1}}, "'weight' is not supported on static"),
        ("nodepool", {"replicas": 1}, {"spec": {"limits": {"cpu": 1}}}, "only 'limits.nodes' is supported"),
        (
            "nodepool",
            {},
            {"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}},
            "nodeClassRef.kind is immutable",
        ),
        (
            "nodepool",
            {},
            {"spec": {"template": {"spec": {"nodeClassRef": {"group": "other"}}}}},
            "nodeClassRef.group is immutable",
        ),
        ("v1beta1 ec2nodeclass", {}, {"spec": {"role": "other"}}, "immutable field changed"),
        (
            "v1beta1 ec2nodeclass",
            {},
            {"spec": {"role": None, "instanceProfile": "p"}},
            "changing from 'instanceProfile' to 'role' is not supported",
        ),
    ],
)
def test_what_may_not_change_is_refused_when_it_changes(
    plane: ControlPlane, base: str, first: dict[str, Any], then: dict[str, Any], message: str
) -> None:
    before = changed(base)
    before["spec"] |= first
    assert _create(plane, before).status == 201

    reply = _patch(plane, before, then)

    assert reply.status == 422, reply.text
    assert message in reply.json()["message"]


@pytest.mark.parametrize("base", ["v1beta1 nodepool", "v1beta1 nodeclaim", "v1beta1 ec2nodeclass"])
def test_an_object_written_as_v1beta1_loses_nothing_when_read_as_v1(plane: ControlPlane, base: str) -> None:
    written = changed(base)
    _create(plane, written)

    as_v1 = plane.request("GET", _path(_as(written, "v1"))).json()

    assert _is_within(written["spec"], as_v1["spec"])


@pytest.mark.parametrize("base", ["v1beta1 nodepool", "v1beta1 nodeclaim", "v1beta1 ec2nodeclass"])
def test_the_status_of_an_object_written_as_v1beta1_is_writable_through_both_versions(
    plane: ControlPlane, base: str
) -> None:
    written = changed(base)
    _create(plane, written)

    through_v1 = _patch(plane, _as(written, "v1"), {"status": {"conditions": [READY]}}, "status")
    through_v1beta1 = _patch(
        plane, written, {"status": {"conditions": [{**READY, "type": "Other"}, READY]}}, "status"
    )

    assert through_v1.status == 200, through_v1.text
    assert through_v1beta1.status == 200, through_v1beta1.text
    now = plane.request("GET", _path(_as(written, "v1"))).json()
    assert [each["type"] for each in now["status"]["conditions"]] == ["Other", "Ready"]
    assert _is_within(written["spec"], now["spec"])


def test_a_status_of_v1_survives_a_status_write_through_v1beta1(plane: ControlPlane) -> None:
    written = changed("nodepool")
    _create(plane, written)
    _patch(plane, written, {"status": {"nodes": 7, "nodeClassObservedGeneration": 3}}, "status")

    _patch(plane, _as(written, "v1beta1"), {"status": {"resources": {"cpu": "1"}}}, "status")

    status = plane.request("GET", _path(written)).json()["status"]
    assert status == {"nodes": 7, "nodeClassObservedGeneration": 3, "resources": {"cpu": "1"}}


def test_an_object_written_as_v1_loses_nothing_when_touched_through_v1beta1(plane: ControlPlane) -> None:
    written = changed("nodepool", "spec.template.spec.terminationGracePeriod", "1h")
    written["spec"]["disruption"]["budgets"] = [{"nodes": "1", "reasons": ["Drifted"]}]
    written["spec"]["template"]["spec"]["expireAfter"] = "Never"
    before = _create(plane, written).json()

    reply = _patch(plane, _as(written, "v1beta1"), {"metadata": {"labels": {"a": "b"}}})

    assert reply.status == 200, reply.text
    assert plane.request("GET", _path(written)).json()["spec"] == before["spec"]


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client side", "server side"])
def test_a_v1_manifest_can_be_applied_over_a_v1beta1_one_and_back(
    plane: ControlPlane, flags: tuple[str, ...]
) -> None:
    old, new = changed("v1beta1 nodepool", name="pool"), changed("nodepool", name="pool")
    seen = []

    for manifest in (old, new, old):
        _apply(plane, manifest, *flags)
        spec = plane.request("GET", _path(new)).json()["spec"]
        seen.append((spec["template"]["spec"]["nodeClassRef"], spec["template"]["spec"].get("kubelet")))
        assert _is_within(manifest["spec"], spec)

    old_ref, new_ref = (each["spec"]["template"]["spec"]["nodeClassRef"] for each in (old, new))
    assert seen == [(old_ref, {"maxPods": 20}), (new_ref, None), (old_ref, {"maxPods": 20})]


def test_what_older_servers_filled_in_does_not_stop_a_v1_manifest(plane: ControlPlane) -> None:
    old = changed("v1beta1 nodepool", name="pool")
    del old["spec"]["disruption"]
    _apply(plane, old)
    filled_in = {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": None, "expireAfter": "720h"}
    assert _patch(plane, old, {"spec": {"disruption": filled_in}}).status == 200
    new = changed("nodepool", "spec.disruption.consolidationPolicy", "WhenEmpty", name="pool")

    _apply(plane, new)

    assert _is_within(new["spec"], plane.request("GET", _path(new)).json()["spec"])


def test_a_v1beta1_manifest_without_disruption_can_be_applied_again_and_again(plane: ControlPlane) -> None:
    manifest = changed("v1beta1 nodepool", name="pool")
    del manifest["spec"]["disruption"]
    _apply(plane, manifest)
    _patch(plane, _as(manifest, "v1"), {"status": {"nodes": 1}}, "status")

    unchanged = _apply(plane, manifest)
    manifest["spec"]["disruption"] = {"consolidationPolicy": "WhenUnderutilized"}
    configured = _apply(plane, manifest)

    assert unchanged.endswith("unchanged\n")
    assert configured.endswith("configured\n")


def test_a_write_through_v1beta1_warns_and_names_the_successor(plane: ControlPlane) -> None:
    result = plane.kubectl("apply", "-f", "-", input=_json(changed("v1beta1 nodepool")))

    assert (
        "Warning: karpenter.sh/v1beta1 NodePool is deprecated; write karpenter.sh/v1 NodePool"
        in result.stderr
    )


def test_kubectl_explain_knows_every_field_of_a_nodepool(plane: ControlPlane) -> None:
    text = plane.kubectl("explain", f"{NODE_POOL.plural}.spec", "--recursive").stdout

    for field in ("consolidateAfter", "terminationGracePeriod", "minValues", "startupTaints", "replicas"):
        assert field in text


def _is_established(plane: ControlPlane, crd: str) -> bool:
    return _condition(plane, crd, "Established") == "True"


def _is_served(plane: ControlPlane, manifest: dict[str, Any]) -> bool:
    return plane.request("GET", _path(manifest, name="")).is_success


def _condition(plane: ControlPlane, crd: str, condition: str) -> str | None:
    status = plane.request("GET", f"{CRDS}/{crd}").json().get("status", {})
    return next(
        (str(each["status"]) for each in status.get("conditions", []) if each["type"] == condition), None
    )


def _scope(kind: Kind) -> str:
    return "namespaces/default/" if kind.scope == "Namespaced" else ""


def _path(manifest: dict[str, Any], name: str | None = None) -> str:
    kind = BY_PLURAL[PLURALS[manifest["kind"]]]
    wanted = manifest["metadata"]["name"] if name is None else name
    return f"/apis/{manifest['apiVersion']}/{_scope(kind)}{kind.plural}/{wanted}".removesuffix("/")


def _as(manifest: dict[str, Any], version: str) -> dict[str, Any]:
    group = manifest["apiVersion"].partition("/")[0]
    return manifest | {"apiVersion": f"{group}/{version}"}


def _create(
    plane: ControlPlane, manifest: dict[str, Any], *, strict: bool = False, dry_run: bool = False
) -> Reply:
    query = f"fieldValidation={'Strict' if strict else 'Ignore'}{'&dryRun=All' if dry_run else ''}"
    return plane.request("POST", f"{_path(manifest, name='')}?{query}", manifest)


def _patch(
    plane: ControlPlane, manifest: dict[str, Any], change: dict[str, Any], subresource: str = ""
) -> Reply:
    path = f"{_path(manifest)}/{subresource}".removesuffix("/")
    return plane.request("PATCH", path, change, content_type=MERGE)


def _apply(plane: ControlPlane, manifest: dict[str, Any], *flags: str) -> str:
    return plane.kubectl("apply", *flags, "-f", "-", input=_json(manifest)).stdout


def _json(manifest: dict[str, Any]) -> str:
    return msgspec.json.encode(manifest).decode()


def _is_within(part: Any, whole: Any) -> bool:
    """Return whether everything in the first is also in the second, which may have more fields."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _is_within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)
