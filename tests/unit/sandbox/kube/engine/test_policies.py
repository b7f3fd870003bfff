# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.kube.api import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
NODES = "/api/v1/nodes"
MAPS = "/api/v1/namespaces/default/configmaps"


def policy(
    *validations: dict[str, Any], operations: tuple[str, ...] = ("CREATE",), **more: Any
) -> dict[str, Any]:
    """A policy about nodes."""
    resources = more.pop("resources", ["nodes"])
    rule = {"operations": list(operations), "apiGroups": [""], "apiVersions": ["v1"], "resources": resources}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "guard"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], **more.pop("match", {})},
            "validations": list(validations),
            **more,
        },
    }


def binding(*actions: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "here"},
        "spec": {"policyName": "guard", "validationActions": list(actions or ("Deny",)), **more},
    }


def node(name: str = "n", **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def guarded(made: dict[str, Any], bound: dict[str, Any] | None = None) -> Api:
    api = Api()
    api.post(f"{GROUP}/validatingadmissionpolicies", made)
    api.post(f"{GROUP}/validatingadmissionpolicybindings", bound or binding())
    return api


def create(api: Api, made: dict[str, Any], path: str = NODES) -> tuple[int, Any]:
    return api.send("POST", path, made, content_type="application/json")


NOT_FAILING = {
    "expression": "has(object.metadata.labels.join) ? object.metadata.labels['join'] != 'no' : true"
}


def test_an_object_that_a_bound_policy_denies_is_not_stored() -> None:
    api = guarded(policy(NOT_FAILING))

    status, said = create(api, node(join="no"))
    dry, _ = create(api, node(join="no"), f"{NODES}?dryRun=All")

    assert (status, said["reason"], dry) == (422, "Invalid", 422)
    assert said["message"] == (
        "nodes \"n\" is forbidden: ValidatingAdmissionPolicy 'guard' with binding 'here' denied request:"
        f" failed expression: {NOT_FAILING['expression']}"
    )
    assert api.get(NODES)["items"] == []
    assert create(api, node(join="yes"))[0] == 201


def test_a_policy_without_a_binding_or_of_another_kind_or_operation_is_not_asked() -> None:
    never = {"expression": "false"}
    unbound = Api()
    unbound.post(f"{GROUP}/validatingadmissionpolicies", policy(never))
    updates = guarded(policy(never, operations=("UPDATE",)))

    assert create(unbound, node())[0] == 201
    assert create(updates, node())[0] == 201
    assert updates.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}})[0] == 422
    assert updates.patch(f"{NODES}/n/status", {"status": {"phase": "Running"}})[0] == 200
    assert create(guarded(policy(never)), {"metadata": {"name": "m"}}, MAPS)[0] == 201
    assert create(guarded(policy(never, resources=["*"])), {"metadata": {"name": "m"}}, MAPS)[0] == 422


def test_a_policy_about_a_status_sees_the_old_and_the_new_object() -> None:
    grows = {
        "expression": "object.status.phase == oldObject.status.phase",
        "message": "it moved",
    }
    api = guarded(policy(grows, operations=("UPDATE",), resources=["nodes/status"]))
    made = {**node(), "status": {"phase": "Pending"}}
    assert create(api, made)[0] == 201

    status, said = api.patch(
        f"{NODES}/n/status", {"status": {"phase": "Running"}}, "application/merge-patch+json"
    )

    assert status == 422
    assert said["message"].endswith("denied request: it moved")
    assert api.patch(f"{NODES}/n", {"metadata": {"labels": {"a": "b"}}})[0] == 200


@pytest.mark.parametrize(
    ("failure_policy", "status"),
    [("Fail", 422), ("Ignore", 201)],
)
def test_what_cannot_be_evaluated_is_denied_unless_failures_are_ignored(
    failure_policy: str, status: int
) -> None:
    for broken in (
        policy({"expression": "object.spec.nothing == 1"}, failurePolicy=failure_policy),
        policy({"expression": "this does not compile"}, failurePolicy=failure_policy),
        policy(
            {"expression": "false"},
            failurePolicy=failure_policy,
            matchConditions=[{"name": "c", "expression": "object.spec.nothing == 1"}],
        ),
    ):
        assert create(guarded(broken), node())[0] == status
    with_params = binding(paramRef={"name": "p", "parameterNotFoundAction": "Deny"})
    made = policy({"expression": "true"}, failurePolicy=failure_policy)
    assert create(guarded(made, with_params), node())[0] == status


def test_conditions_selectors_and_excluded_rules_narrow_what_is_judged() -> None:
    never = {"expression": "false"}
    of_a = {"objectSelector": {"matchLabels": {"team": "a"}}}
    named = {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "resourceNames": ["n"],
    }

    for narrowed in (
        guarded(policy(never, match=of_a)),
        guarded(policy(never), binding(matchResources=of_a)),
        guarded(policy(never, match={"excludeResourceRules": [named]})),
        guarded(policy(never, matchConditions=[{"name": "c", "expression": "request.name != 'n'"}])),
    ):
        assert create(narrowed, node(team="b"))[0] == 201
        assert create(narrowed, node("other", team="a"))[0] == 422


def test_namespaces_are_selected_by_their_labels() -> None:
    system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    api = guarded(policy({"expression": "false"}, resources=["configmaps"], match=system))

    assert create(api, {"metadata": {"name": "m"}}, MAPS)[0] == 201
    assert create(api, {"metadata": {"name": "m"}}, "/api/v1/namespaces/kube-system/configmaps")[0] == 422


def test_a_binding_may_warn_only_and_a_validation_may_say_why_in_its_own_words() -> None:
    spoken = {
        "expression": "variables.name == 'x'",
        "messageExpression": "'it is called ' + variables.name",
        "reason": "Forbidden",
    }
    variables = [{"name": "name", "expression": "object.metadata.name"}]
    warned = guarded(policy(spoken, variables=variables), binding("Warn"))
    denied = guarded(policy(spoken, variables=variables))
    wordless = guarded(
        policy({**spoken, "messageExpression": "object.nothing", "message": "no"}, variables=variables)
    )

    answer = warned.raw("POST", NODES, node(), content_type="application/json", user_agent="test/1")

    assert answer.status == 201
    assert "it is called n" in str(answer.headers)
    assert create(denied, node())[1]["code"] == 403
    assert create(denied, node())[1]["message"].endswith("it is called n")
    assert create(wordless, node())[1]["message"].endswith("denied request: no")


def test_a_policy_cannot_keep_policies_from_being_changed() -> None:
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    api = guarded(policy({"expression": "false"}, match={"resourceRules": [every]}))

    path = f"{GROUP}/validatingadmissionpolicies/guard"
    assert api.patch(path, {"spec": {"failurePolicy": "Ignore"}})[0] == 200
    assert api.delete(path)[0] == 200
    assert create(api, node())[0] == 201
