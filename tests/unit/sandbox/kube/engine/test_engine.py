# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
import yaml

from tests.unit.sandbox.kube.api import PODS, Api, container, deployment, pod

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_MAPS = "/api/v1/namespaces/default/configmaps"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_APPLY = "application/apply-patch+yaml"


@pytest.fixture
def api() -> Api:
    return Api()


def _map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def _definition(name: str) -> dict[str, Any]:
    text = resources.files("karpenter.api.crds").joinpath(name).read_text(encoding="utf-8")
    crd: dict[str, Any] = yaml.safe_load(text)
    return crd


def test_a_pod_gets_what_admission_gives_it(api: Api) -> None:
    made = api.post(
        PODS, pod("p", containers=[container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})])
    )

    assert made["spec"]["priority"] == 0
    assert made["spec"]["serviceAccountName"] == "default"
    assert len(made["spec"]["tolerations"]) == 2
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_a_name_is_made_up_where_only_its_beginning_is_given(api: Api) -> None:
    made = api.post(PODS, {**pod(""), "metadata": {"generateName": "p-"}})

    assert made["metadata"]["name"].startswith("p-")
    assert len(made["metadata"]["name"]) == 7


def test_a_taken_name_is_a_conflict(api: Api) -> None:
    api.post(_MAPS, _map("m"))

    status, body = api.send("POST", _MAPS, _map("m"))

    assert (status, body["reason"]) == (409, "AlreadyExists")


def test_a_stale_write_is_a_conflict(api: Api) -> None:
    first = api.post(_MAPS, _map("m"))
    api.patch(f"{_MAPS}/m", {"data": {"a": "1"}})

    stale = _map("m", resourceVersion=first["metadata"]["resourceVersion"])
    status, body = api.send("PUT", f"{_MAPS}/m", stale)

    assert (status, body["reason"]) == (409, "Conflict")


def test_a_write_that_changes_nothing_leaves_the_revision(api: Api) -> None:
    api.post(_MAPS, _map("m"))
    _, first = api.patch(f"{_MAPS}/m", {"data": {"a": "1"}})
    api.clock.tick(5)

    _, second = api.patch(f"{_MAPS}/m", {"data": {"a": "1"}})

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_dry_run_stores_nothing(api: Api) -> None:
    made = api.post(f"{_MAPS}?dryRun=All", _map("m"))

    assert "resourceVersion" not in made["metadata"]
    assert api.send("GET", f"{_MAPS}/m")[0] == 404


def test_unknown_fields_are_warned_of_or_refused(api: Api) -> None:
    warned = api.raw("POST", _MAPS, {**_map("m"), "extra": 1}, user_agent="test/1")
    status, body = api.send("POST", f"{_MAPS}?fieldValidation=Strict", {**_map("n"), "extra": 1})

    assert warned.headers["Warning"] == '299 - "unknown field \\"extra\\""'
    assert status == 400
    assert 'strict decoding error: unknown field "extra"' in body["message"]


def test_only_a_new_spec_is_a_new_generation(api: Api) -> None:
    api.post(_DEPLOYMENTS, deployment("d"))

    _, labelled = api.patch(f"{_DEPLOYMENTS}/d", {"metadata": {"labels": {"x": "y"}}})
    _, scaled = api.patch(f"{_DEPLOYMENTS}/d", {"spec": {"replicas": 5}})
    _, observed = api.patch(f"{_DEPLOYMENTS}/d/status", {"status": {"replicas": 5}, "spec": {"replicas": 9}})

    assert labelled["metadata"]["generation"] == 1
    assert scaled["metadata"]["generation"] == 2
    assert observed["metadata"]["generation"] == 2
    assert observed["spec"]["replicas"] == 5
    assert observed["status"] == {"replicas": 5}


def test_an_object_with_a_finalizer_stays_until_it_is_released(api: Api) -> None:
    api.post(_MAPS, _map("m", finalizers=["a/b"]))

    _, held = api.delete(f"{_MAPS}/m")
    api.patch(f"{_MAPS}/m", {"metadata": {"finalizers": None}})

    assert held["metadata"]["deletionTimestamp"]
    assert api.send("GET", f"{_MAPS}/m")[0] == 404


def test_a_pod_on_a_node_has_its_grace_period(api: Api) -> None:
    api.post(PODS, pod("p", nodeName="n"))

    _, begun = api.delete(f"{PODS}/p")
    still_there = api.send("GET", f"{PODS}/p")[0]
    api.delete(f"{PODS}/p?gracePeriodSeconds=0")

    assert begun["metadata"]["deletionGracePeriodSeconds"] == 30
    assert still_there == 200
    assert api.send("GET", f"{PODS}/p")[0] == 404


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_the_garbage_collector_finds_what_to_do_with_dependents(
    api: Api, policy: str, finalizer: str
) -> None:
    api.post(_DEPLOYMENTS, deployment("d"))

    _, left = api.delete(f"{_DEPLOYMENTS}/d?propagationPolicy={policy}")

    assert left["metadata"]["finalizers"] == [finalizer]


def test_preconditions_protect_another_object_of_the_same_name(api: Api) -> None:
    api.post(_MAPS, _map("m"))

    status, body = api.delete(f"{_MAPS}/m", {"preconditions": {"uid": "other"}})

    assert status == 409
    assert "UID in the precondition (other)" in body["message"]


def test_nothing_new_comes_into_a_namespace_that_goes(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})

    api.delete("/api/v1/namespaces/going")
    status, body = api.send("POST", "/api/v1/namespaces/going/configmaps", _map("m"))
    finished = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}, "spec": {}}
    api.send("PUT", "/api/v1/namespaces/going/finalize", finished)

    assert status == 403
    assert body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert api.send("GET", "/api/v1/namespaces/going")[0] == 404


def test_a_budget_holds_an_eviction_up(api: Api) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "a"}}
    api.post(PODS, {**pod("p", nodeName="n"), "metadata": {"name": "p", "labels": {"app": "a"}}})
    api.patch(
        f"{PODS}/p/status",
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    )
    api.post(budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}})
    counts = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
    api.patch(f"{budgets}/b/status", {"status": counts})
    eviction = {"metadata": {"name": "p"}}

    refused, body = api.send("POST", f"{PODS}/p/eviction", eviction)
    api.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    allowed, _ = api.send("POST", f"{PODS}/p/eviction", eviction)

    assert refused == 429
    assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert allowed == 201
    assert api.get(f"{budgets}/b")["status"]["disruptionsAllowed"] == 0
    assert api.get(f"{PODS}/p")["metadata"]["deletionTimestamp"]


def test_a_pod_is_placed_once(api: Api) -> None:
    api.post(PODS, pod("p"))

    placed, _ = api.send("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    again, _ = api.send("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n2"}})

    assert (placed, again) == (201, 409)
    assert api.get(f"{PODS}/p")["spec"]["nodeName"] == "n1"


def test_a_binding_that_means_another_pod_of_that_name_is_a_conflict(api: Api) -> None:
    api.post(PODS, pod("p"))
    other = {"metadata": {"name": "p", "uid": "of-old"}, "target": {"name": "n1"}}

    refused, said = api.send("POST", f"{PODS}/p/binding", other)
    same = {**other, "metadata": {"name": "p", "uid": api.get(f"{PODS}/p")["metadata"]["uid"]}}
    placed, _ = api.send("POST", f"{PODS}/p/binding", same)

    assert (refused, placed) == (409, 201)
    assert "UID in precondition: of-old" in said["message"]


def test_scale_reads_and_writes_replicas(api: Api) -> None:
    api.post(_DEPLOYMENTS, deployment("d", replicas=2))

    before = api.get(f"{_DEPLOYMENTS}/d/scale")
    _, after = api.patch(f"{_DEPLOYMENTS}/d/scale", {"spec": {"replicas": 7}})
    refused, _ = api.patch(f"{_DEPLOYMENTS}/d/scale", {"spec": {"replicas": -7}})

    assert before["spec"]["replicas"] == 2
    assert before["status"]["selector"] == "app=d"
    assert after["spec"]["replicas"] == 7
    assert refused == 422


def test_our_definitions_are_served_as_soon_as_they_are_stored(api: Api) -> None:
    made = api.post(_CRDS, _definition("karpenter.sh_nodepools.yaml"))
    established = api.get(f"{_CRDS}/{made['metadata']['name']}")
    bad = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {}}

    status, body = api.send("POST", "/apis/karpenter.sh/v1/nodepools", bad)

    assert {each["type"] for each in established["status"]["conditions"]} == {"NamesAccepted", "Established"}
    assert status == 422
    assert "spec.template: Required value" in body["message"]


def test_a_status_that_nobody_has_set_shows_its_default(api: Api) -> None:
    status = {"type": "object", "default": {"level": "low"}, "properties": {"level": {"type": "string"}}}
    schema = {"type": "object", "properties": {"status": status}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    version["schema"] = {"openAPIV3Schema": schema}
    names = {"plural": "marks", "kind": "Mark"}
    spec = {"group": "x.example", "scope": "Cluster", "names": names, "versions": [version]}
    api.post(_CRDS, {"metadata": {"name": "marks.x.example"}, "spec": spec})
    mark = {"apiVersion": "x.example/v1", "kind": "Mark", "metadata": {"name": "m"}}

    made = api.post("/apis/x.example/v1/marks", {**mark, "status": {"level": "high"}})
    _, told = api.patch("/apis/x.example/v1/marks/m/status", {"status": {"level": "high"}})
    _, emptied = api.patch("/apis/x.example/v1/marks/m/status", {"status": None})

    assert [each["status"]["level"] for each in (made, told, emptied)] == ["low", "high", "low"]


def test_a_definition_takes_its_objects_with_it(api: Api) -> None:
    made = api.post(_CRDS, _definition("karpenter.sh_nodeclaims.yaml"))
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c"},
        "spec": {"nodeClassRef": reference, "requirements": []},
    }
    api.post("/apis/karpenter.sh/v1/nodeclaims", claim)

    api.delete(f"{_CRDS}/{made['metadata']['name']}")

    assert api.raw("GET", "/apis/karpenter.sh/v1/nodeclaims").status == 404
    assert api.engine.store.count("karpenter.sh/nodeclaims") == 0


def test_events_are_the_same_objects_in_both_groups(api: Api) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "reason": "Started",
        "message": "it began",
        "type": "Normal",
    }
    api.post("/api/v1/namespaces/default/events", event)

    seen = api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")

    assert seen["note"] == "it began"
    assert seen["regarding"]["name"] == "p"


def test_an_autoscaler_is_read_in_its_older_form(api: Api) -> None:
    base = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 60,
    }
    api.post(base.format("v1"), {"metadata": {"name": "h"}, "spec": spec})

    newer, older = api.get(f"{base.format('v2')}/h"), api.get(f"{base.format('v1')}/h")

    assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    assert older["spec"]["targetCPUUtilizationPercentage"] == 60


def test_a_claim_is_not_deleted_while_a_pod_uses_it(api: Api) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.post(claims, {"metadata": {"name": "c"}, "spec": spec})
    api.post(PODS, pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))

    api.delete(f"{claims}/c")
    held = api.send("GET", f"{claims}/c")[0]
    api.delete(f"{PODS}/p")

    assert held == 200
    assert api.send("GET", f"{claims}/c")[0] == 404


def test_pages_follow_each_other(api: Api) -> None:
    for number in range(5):
        api.post(_MAPS, _map(f"m{number}"))

    first = api.get(f"{_MAPS}?limit=2")
    second = api.get(f"{_MAPS}?limit=2&continue={first['metadata']['continue']}")
    third = api.get(f"{_MAPS}?limit=2&continue={second['metadata']['continue']}")

    names = [each["metadata"]["name"] for page in (first, second, third) for each in page["items"]]
    assert names == ["m0", "m1", "m2", "m3", "m4"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "continue" not in third["metadata"]


def test_a_list_at_a_revision_that_is_gone_is_refused(api: Api) -> None:
    first = api.post(_MAPS, _map("m"))["metadata"]["resourceVersion"]
    api.post(_MAPS, _map("n"))

    gone, _ = api.send("GET", f"{_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")
    ahead, _ = api.send("GET", f"{_MAPS}?resourceVersion=99999")

    assert (gone, ahead) == (410, 504)


def test_applying_makes_and_then_changes_an_object(api: Api) -> None:
    config = deployment("d", replicas=2)

    made, _ = api.send("PATCH", f"{_DEPLOYMENTS}/d?fieldManager=one", config, content_type=_APPLY)
    again, same = api.send("PATCH", f"{_DEPLOYMENTS}/d?fieldManager=one", config, content_type=_APPLY)
    unnamed, _ = api.send("PATCH", f"{_DEPLOYMENTS}/d", config, content_type=_APPLY)

    assert (made, again, unnamed) == (201, 200, 422)
    assert same["spec"]["replicas"] == 2


def test_everything_that_was_selected_is_deleted(api: Api) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.post(_MAPS, _map(name, labels={"colour": colour}))

    api.delete(f"{_MAPS}?labelSelector=colour=red")

    assert [each["metadata"]["name"] for each in api.get(_MAPS)["items"]] == ["b"]


def test_whoever_is_let_in_may_do_everything(api: Api) -> None:
    attributes = {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}

    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": attributes})
    rules = api.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    who = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    known = api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "token"}})

    assert answer["status"] == {"allowed": True}
    assert rules["status"]["resourceRules"][0]["verbs"] == ["*"]
    assert who["status"]["userInfo"]["username"] == "sandbox-admin"
    assert known["status"]["authenticated"]


def test_figures_of_use_are_what_pods_ask_for(api: Api) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    ask = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    api.post(PODS, pod("p", nodeName="n", containers=[container(resources=ask)]))
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})

    nodes = api.get("/apis/metrics.k8s.io/v1beta1/nodes")
    one = api.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p")
    missing, _ = api.send("GET", "/apis/metrics.k8s.io/v1beta1/nodes/x")

    assert nodes["items"][0]["usage"] == {"cpu": "500m", "memory": "1Gi"}
    assert one["containers"][0]["usage"] == {"cpu": "500m", "memory": "1Gi"}
    assert missing == 404


def test_a_namespace_is_finalized_only_at_its_latest_revision(api: Api) -> None:
    made = api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    api.patch("/api/v1/namespaces/n", {"metadata": {"labels": {"a": "b"}}})
    stale = {"metadata": {"name": "n", "resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {}}

    status, _ = api.send("PUT", "/api/v1/namespaces/n/finalize", stale)

    assert status == 409


def test_a_service_account_gets_a_token(api: Api) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "robot"}})

    made = api.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    as_kubectl_asks = api.post(f"{accounts}/robot/token", {"spec": {"expirationSeconds": None}})
    missing, _ = api.send("POST", f"{accounts}/none/token", {})

    assert made["status"]["token"].startswith("sandbox.default.robot.")
    assert made["spec"]["expirationSeconds"] == 600
    assert as_kubectl_asks["spec"]["expirationSeconds"] == 3600
    assert missing == 404


@pytest.mark.parametrize(
    ("unready", "policy", "status"),
    [(True, "AlwaysAllow", 201), (True, "IfHealthyBudget", 201), (False, "AlwaysAllow", 429)],
)
def test_a_pod_that_is_not_ready_may_be_evicted_where_the_budget_says_so(
    api: Api,
    unready: bool,  # noqa: FBT001
    policy: str,
    status: int,
) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    api.post(PODS, {**pod("p", nodeName="n"), "metadata": {"name": "p", "labels": {"app": "a"}}})
    ready = {"type": "Ready", "status": "False" if unready else "True"}
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": [ready]}})
    spec = {
        "minAvailable": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "unhealthyPodEvictionPolicy": policy,
    }
    api.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    api.patch(
        f"{budgets}/b/status", {"status": {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}}
    )

    answered, _ = api.send("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})

    assert answered == status


def test_a_default_priority_class_is_taken_by_pods_without_one(api: Api) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})

    made = api.post(PODS, pod("p"))

    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("usual", 7)


def test_the_default_storage_class_is_taken_by_claims_without_one(api: Api) -> None:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    api.post(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "gp3", "annotations": marks}, "provisioner": "ebs"},
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    made = api.post(
        "/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec}
    )

    assert made["spec"]["storageClassName"] == "gp3"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"group": ""}, "spec.group"),
        ({"versions": []}, "exactly one version"),
        ({"names": {"plural": "things"}}, "spec.names.kind"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "schemas are required"),
        (
            {
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "odd"}},
                    }
                ]
            },
            "odd",
        ),
    ],
)
def test_a_definition_that_cannot_be_served_is_refused(api: Api, change: dict[str, Any], word: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "x.example", "scope": "Cluster", "names": names, "versions": [version], **change}

    status, body = api.send("POST", _CRDS, {"metadata": {"name": "things.x.example"}, "spec": spec})

    assert status == 422
    assert word in body["message"]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_a_clusters_own_namespaces_may_not_be_deleted(api: Api, name: str) -> None:
    status, body = api.delete(f"/api/v1/namespaces/{name}")

    assert status == 403
    assert body["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


@pytest.mark.parametrize(("asked", "words"), [("x", "invalid syntax"), ("9" * 20, "value out of range")])
def test_a_grace_period_that_is_no_number_is_refused(api: Api, asked: str, words: str) -> None:
    api.post(PODS, pod("p"))

    status, body = api.delete(f"{PODS}/p?gracePeriodSeconds={asked}")

    assert (status, body["message"]) == (400, f'strconv.ParseInt: parsing "{asked}": {words}')


def test_nobody_waits_beyond_the_calendar(api: Api) -> None:
    api.post(PODS, pod("p", nodeName="n"))

    status, body = api.delete(f"{PODS}/p?gracePeriodSeconds={10**17}")

    assert (status, body["metadata"]["deletionGracePeriodSeconds"]) == (200, 10**17)


def test_an_autoscaler_whose_spec_is_no_object_is_refused(api: Api) -> None:
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    body = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}

    status, told = api.send("POST", path, {**body, "spec": "50%"}, content_type="application/json")

    assert status == 400
    assert "cannot unmarshal string" in told["message"]


def test_a_patch_of_the_status_leaves_the_rest_of_the_stored_object_as_it_was(api: Api) -> None:
    api.post(PODS, pod("p"))
    before = api.engine.store.get("/pods", "default", "p")

    status, _ = api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})

    after = api.engine.store.get("/pods", "default", "p")
    assert status == 200
    assert before is not None
    assert after is not None
    assert after.obj["spec"] is before.obj["spec"]
    ours, theirs = after.obj["metadata"]["managedFields"], before.obj["metadata"]["managedFields"]
    assert any(each is theirs[0] for each in ours)


def test_an_unknown_field_deep_in_a_patch_is_told(api: Api) -> None:
    api.post(PODS, pod("p"))

    answer = api.raw(
        "PATCH",
        f"{PODS}/p",
        {"spec": {"affinity": {"nodeAffinity": {"wrong": 1}}}},
        content_type="application/merge-patch+json",
    )

    assert 'unknown field \\"spec.affinity.nodeAffinity.wrong\\"' in answer.headers["Warning"]


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("binding", {"metadata": {"name": [[]]}, "target": {"name": "n"}}),
        ("binding", {"metadata": {"annotations": {"a": 5}}, "target": {"name": "n"}}),
        ("binding", {"target": {"name": {"a": "b"}}}),
        ("eviction", {"deleteOptions": {"gracePeriodSeconds": "soon"}}),
    ],
)
def test_what_is_written_through_a_pod_is_of_the_right_types(api: Api, part: str, body: Any) -> None:
    api.post(PODS, pod("p"))

    status, told = api.send("POST", f"{PODS}/p/{part}", body, content_type="application/json")

    assert status == 400
    assert "cannot unmarshal" in told["message"]
    assert "nodeName" not in api.get(f"{PODS}/p")["spec"]


def test_a_token_for_ever_ends_some_day(api: Api) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    api.post(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    body = {"spec": {"expirationSeconds": 10**20}}

    status, told = api.send("POST", f"{path}/robot/token", body, content_type="application/json")

    assert status == 201
    assert told["status"]["expirationTimestamp"].startswith("21")


@pytest.mark.parametrize("value", [None, 1])
def test_a_custom_object_is_not_applied_with_a_field_that_its_schema_does_not_have(
    api: Api, value: int | None
) -> None:
    for file in ("karpenter.sh_nodepools.yaml",):
        text = resources.files("karpenter.api.crds").joinpath(file).read_text("utf-8")
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(text))
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}, "extra": value},
        "more": value,
    }

    status, told = api.patch(
        "/apis/karpenter.sh/v1/nodepools/p?fieldManager=me", pool, "application/apply-patch+yaml"
    )

    assert status == 500
    assert told["message"] == (
        "failed to create typed patch object (/p; karpenter.sh/v1, Kind=NodePool): errors:\n"
        "  .spec.extra: field not declared in schema\n"
        "  .more: field not declared in schema"
    )


def test_an_item_of_an_applied_list_is_named_by_its_keys(api: Api) -> None:
    made = deployment("d")
    made["spec"]["template"]["spec"]["containers"][0]["nonsense"] = None
    made["metadata"]["finalizers"] = [5]

    status, told = api.patch(
        "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=me", made, "application/apply-patch+yaml"
    )

    assert status == 500
    assert (
        '.spec.template.spec.containers[name="main"].nonsense: field not declared in schema'
        in told["message"]
    )
    assert ".metadata.finalizers[=5]: expected string, got int" in told["message"]
