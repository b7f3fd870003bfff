# SPDX-License-Identifier: Apache-2.0
"""What is reached through an object but is not the object: scale, eviction, binding, tokens, namespace finalizers.

``status`` is not here: it is a part of the object and is written by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from karpenter.api.schema.problems import invalid as invalid_problem
from karpenter.sandbox.kube.engine.admitting import check_identity
from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.engine.calls import Call, Options, Target
from karpenter.sandbox.kube.engine.deleting import delete
from karpenter.sandbox.kube.engine.engine import Engine, Object, Outcome
from karpenter.sandbox.kube.engine.patches import patched
from karpenter.sandbox.kube.errors import ApiError, invalid
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.reading import DecodeError, Reader, written_time
from karpenter.sandbox.kube.kinds.shapes import Shape, builtin_shape
from karpenter.sandbox.kube.patching.plain import merge_patch
from karpenter.sandbox.kube.storage.selecting import matches_labels

__all__ = ["bind", "evict", "finalize", "read_scale", "token", "write_scale"]

_SCALE: Final = builtin_shape("io.k8s.api.autoscaling.v1.Scale")
_BUDGETS: Final = "policy/poddisruptionbudgets"
_BINDING: Final = builtin_shape("io.k8s.api.core.v1.Binding")
_EVICTION: Final = builtin_shape("io.k8s.api.policy.v1.Eviction")
_TOKEN_REQUEST: Final = builtin_shape("io.k8s.api.authentication.v1.TokenRequest")
_TOKEN_S: Final = 3600
# A real server allows as much.
_LONGEST_TOKEN_S: Final = 1 << 32
_SUCCESS: Final[Object] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def read_scale(engine: Engine, resource: Resource, target: Target) -> Object:
    """Gives the Scale of an object.

    Raises:
        ApiError: there is no such object.
    """
    return _scale(resource, engine.stored(resource, target).obj)


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ApiError.bad_request("metadata is not an object")
    return metadata


def _typed(call: Call, shape: Shape, version: str) -> Object:
    """Reads the body of a request by the shape of its kind; a body that is no object says nothing.

    Raises:
        ApiError: a value is of the wrong type.
    """
    body = parse_body(call.body, call.content_type)
    try:
        return Reader().object(body if isinstance(body, dict) else {}, shape)
    except DecodeError as error:
        kind = shape.name
        raise ApiError.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        ) from error


def _paths(resource: Resource) -> tuple[str, str, str]:
    if resource.version_spec is not None:
        told = resource.version_spec["subresources"]["scale"]
        return told["specReplicasPath"], told["statusReplicasPath"], told.get("labelSelectorPath", "")
    return ".spec.replicas", ".status.replicas", ""


def _at(obj: Any, path: str) -> Any:
    for step in path.removeprefix(".").split("."):
        obj = obj.get(step) if isinstance(obj, Mapping) else None
    return obj


def _scale(resource: Resource, obj: Mapping[str, Any]) -> Object:
    wanted, actual, selector = _paths(resource)
    metadata = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, actual) or 0}
    told = (
        _at(obj, selector) if selector else _selector_text(resource, (obj.get("spec") or {}).get("selector"))
    )
    if told:
        status["selector"] = told
    count = _at(obj, wanted)
    if count is None and resource.definition is not None:
        why = f'the spec replicas field "{wanted}" does not exist'
        raise ApiError(
            500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
        )
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": count} if count else {},
        "status": status,
    }


def _selector_text(resource: Resource, selector: Any) -> str:
    if not isinstance(selector, dict) or resource.definition is not None:
        return ""
    labels = selector if resource.kind == "ReplicationController" else selector.get("matchLabels") or {}
    parts = [f"{key}={value}" for key, value in labels.items()]
    if resource.kind != "ReplicationController":
        for each in selector.get("matchExpressions") or ():
            values = ",".join(sorted(each.get("values") or ()))
            form = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
            parts.append(form[each["operator"]].format(each["key"], values))
    return ",".join(sorted(parts))


def write_scale(engine: Engine, resource: Resource, target: Target, options: Options, call: Call) -> Object:
    """Changes how many an object asks for and gives its Scale.

    Raises:
        ApiError: the Scale is refused.
    """
    body = parse_body(call.body, call.content_type)
    found = engine.stored(resource, target)
    if call.method == "PATCH":
        if call.content_type == "application/apply-patch+yaml":
            sent: Any = merge_patch(_scale(resource, found.obj), body)
        else:
            sent = patched(call.content_type, body, _SCALE)(_scale(resource, found.obj))
    else:
        sent = body
    if not isinstance(sent, dict):
        raise ApiError.bad_request("the body is not a Scale")
    try:
        scale = Reader().object(sent, _SCALE)
    except DecodeError as error:
        raise ApiError.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    metadata = scale.get("metadata") or {}
    if metadata.get("name", target.name) != target.name:
        raise ApiError.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    version = metadata.get("resourceVersion")
    if version and version != found.obj["metadata"]["resourceVersion"]:
        raise ApiError.conflict(
            resource.group,
            resource.plural,
            target.name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    count = (scale.get("spec") or {}).get("replicas", 0)
    if count < 0:
        problem = invalid_problem("spec.replicas", count, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", target.name, [problem])
    steps = _paths(resource)[0].removeprefix(".").split(".")

    def transform(old: Object) -> Object:
        return _with(old, steps, count)

    outcome = engine.change(resource, target, transform, options, call)
    return _scale(resource, outcome.obj)


def _with(obj: Any, steps: list[str], value: Any) -> Object:
    held = dict(obj) if isinstance(obj, Mapping) else {}
    held[steps[0]] = value if len(steps) == 1 else _with(held.get(steps[0]), steps[1:], value)
    return held


def evict(engine: Engine, resource: Resource, target: Target, call: Call) -> Object:
    """Deletes a pod if no budget forbids it.

    Raises:
        ApiError: a budget does (429), or more than one cover the pod (500).
    """
    body = _typed(call, _EVICTION, "v1")
    if _metadata(body).get("name", target.name) != target.name:
        raise ApiError.bad_request("name in URL does not match name in Eviction object")
    pod = engine.stored(resource, target).obj
    options: Object = dict(body.get("deleteOptions") or {})
    if call.query.get("dryRun"):
        options["dryRun"] = ["All"]
    phase = (pod.get("status") or {}).get("phase")
    if phase not in {"Succeeded", "Failed", "Pending"} and not pod["metadata"].get("deletionTimestamp"):
        _spend_budget(engine, pod, dry=bool(options.get("dryRun")))
    if not options.get("dryRun") and pod["spec"].get("nodeName"):
        _mark_disrupted(engine, pod)
    delete(engine, resource, target, options)
    return dict(_SUCCESS)


def _mark_disrupted(engine: Engine, pod: Object) -> None:
    """Tells whoever looks at the pod later why it ended."""
    status = dict(pod.get("status") or {})
    others = [each for each in status.get("conditions") or () if each["type"] != "DisruptionTarget"]
    marked = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": engine.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    new = {**pod, "metadata": dict(pod["metadata"]), "status": {**status, "conditions": [*others, marked]}}
    engine.store.put("/pods", new, int(pod["metadata"]["resourceVersion"]))


def _spend_budget(engine: Engine, pod: Object, *, dry: bool) -> None:
    labels = pod["metadata"].get("labels") or {}
    namespace = pod["metadata"]["namespace"]
    covering = [
        each
        for each in engine.store.items(_BUDGETS, namespace)
        if matches_labels((each.obj.get("spec") or {}).get("selector"), labels)
    ]
    if not covering:
        return
    if len(covering) > 1:
        raise ApiError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    budget = covering[0]
    name = budget.obj["metadata"]["name"]
    status = budget.obj.get("status") or {}
    if not _is_ready(pod) and _spares_unready(budget.obj):
        return
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < budget.obj["metadata"].get("generation", 0):
        raise _budget_refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed <= 0:
        raise _budget_refusal(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently",
            0,
        )
    if dry:
        return
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: engine.now()}
    new = {
        **budget.obj,
        "metadata": dict(budget.obj["metadata"]),
        "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted},
    }
    engine.store.put(_BUDGETS, new, budget.revision)


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _spares_unready(budget: Object) -> bool:
    policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
    status = budget.get("status") or {}
    if policy == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _budget_refusal(message: str, retry_s: int) -> ApiError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    headers = {}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
        headers["Retry-After"] = str(retry_s)
    return ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details=details,
        headers=headers,
    )


def bind(engine: Engine, target: Target, call: Call) -> Object:
    """Places a pod on a node.

    Raises:
        ApiError: it has a place already, or is on its way out.
    """
    sent = _typed(call, _BINDING, "v1")
    name = target.name or _metadata(sent).get("name", "")
    node = (sent.get("target") or {}).get("name", "")
    if not node:
        raise ApiError(500, "", "target.name: Required value")
    spot = Target("", "v1", "pods", target.namespace, name)
    pods = engine.catalogue.find("", "v1", "pods")
    assert pods is not None  # noqa: S101 - a built-in kind
    found = engine.stored(pods, spot)
    pod = found.obj
    engine.check_uid(pods, spot, _metadata(sent).get("uid"), found)
    if pod["metadata"].get("deletionTimestamp"):
        raise ApiError.conflict(
            "", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if pod["spec"].get("nodeName"):
        raise ApiError.conflict(
            "", "pods/binding", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        )
    if call.query.get("dryRun"):
        return dict(_SUCCESS)
    now = engine.now()
    status = dict(pod.get("status") or {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    placed = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*others, placed]
    metadata = dict(pod["metadata"])
    annotations = _metadata(sent).get("annotations")
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    new = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}
    engine.store.put("/pods", new, found.revision)
    return dict(_SUCCESS)


def token(engine: Engine, resource: Resource, target: Target, call: Call) -> Object:
    """Gives a token for a service account; it says nothing and opens everything that the sandbox has.

    Raises:
        ApiError: there is no such account.
    """
    account = engine.stored(resource, target).obj
    spec = dict(_typed(call, _TOKEN_REQUEST, "v1").get("spec") or {})
    # kubectl writes null for what it was not told.
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _TOKEN_S
    spec["audiences"] = spec.get("audiences") or ["https://kubernetes.default.svc"]
    ends = engine.moment() + timedelta(seconds=min(max(spec["expirationSeconds"], 0), _LONGEST_TOKEN_S))
    metadata = account["metadata"]
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "creationTimestamp": engine.now()},
        "spec": {"boundObjectRef": None, **spec},
        "status": {
            "token": f"sandbox.{target.namespace}.{target.name}.{metadata['uid']}",
            "expirationTimestamp": written_time(ends),
        },
    }


def finalize(engine: Engine, resource: Resource, target: Target, options: Options, call: Call) -> Outcome:
    """Changes what keeps a namespace from going.

    Raises:
        ApiError: there is no such namespace, or it is another one.
    """
    body = check_identity(resource, parse_body(call.body, call.content_type))
    told = body.get("spec")
    wanted = (told.get("finalizers") or []) if isinstance(told, dict) else []
    found = engine.stored(resource, target)
    version = _metadata(body).get("resourceVersion")
    if version and version != found.obj["metadata"]["resourceVersion"]:
        raise ApiError.conflict(
            "",
            "namespaces",
            target.name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    spec = {key: value for key, value in (found.obj.get("spec") or {}).items() if key != "finalizers"}
    if wanted:
        spec["finalizers"] = wanted
    new = {**found.obj, "metadata": dict(found.obj["metadata"]), "spec": spec}
    return engine._stored_change(resource, found, new, options)  # noqa: SLF001 - nothing to admit in a list of names
