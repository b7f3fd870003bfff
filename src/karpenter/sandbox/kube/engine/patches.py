# SPDX-License-Identifier: Apache-2.0
"""PATCH: the four kinds of patch, each turned into a change of the stored object.

JSON, merge and strategic merge patches make the new object; the rest is an ordinary write. Server-side apply also
settles who owns which field, and makes the object where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.engine.calls import Call, Options, Target
from karpenter.sandbox.kube.engine.engine import Engine, Object, Outcome
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.shapes import Shape
from karpenter.sandbox.kube.patching.fieldsets import mistyped
from karpenter.sandbox.kube.patching.managed import Applied, Writer, applied
from karpenter.sandbox.kube.patching.plain import JsonPatchError, json_patch, merge_patch
from karpenter.sandbox.kube.patching.strategic import StrategicPatchError, strategic_patch

__all__ = ["patch", "patched"]

_JSON: Final = "application/json-patch+json"
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_KINDS: Final = frozenset({_JSON, _MERGE, _STRATEGIC, _APPLY})


def patch(engine: Engine, resource: Resource, target: Target, options: Options, call: Call) -> Outcome:
    """Patches an object, or makes it by applying.

    Raises:
        ApiError: the patch or what it makes is refused.
    """
    kind = call.content_type
    _check_type(resource, kind)
    body = parse_body(call.body, kind)
    if kind == _APPLY:
        return _apply(engine, resource, target, body, options, call)
    change = patched(kind, body, resource.shape)

    def transform(old: Object) -> Object:
        new = change(old)
        _check_name(new, target)
        return new

    return engine.change(resource, target, transform, options, call)


def _check_type(resource: Resource, kind: str) -> None:
    accepted = [_JSON, _MERGE, *([] if resource.definition is not None else [_STRATEGIC]), _APPLY]
    if kind not in accepted:
        if kind in _KINDS:
            raise ApiError.unsupported_media(", ".join(accepted))
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def _check_name(new: Object, target: Target) -> None:
    metadata = new.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    if name != target.name:
        raise ApiError.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def patched(kind: str, body: Any, shape: Shape) -> Callable[[Object], Object]:
    """Gives the function that a patch is; it raises `ApiError` where the patch does not fit."""

    def change(old: Object) -> Object:
        try:
            if kind == _JSON:
                new = json_patch(old, body)
            elif not isinstance(body, dict):
                raise ApiError.bad_request(
                    f"error decoding patch: json: cannot unmarshal {_type(body)} into Go value of type "
                    "map[string]interface {}"
                )
            elif kind == _MERGE:
                new = merge_patch(old, body)
            else:
                new = strategic_patch(old, body, shape)
        except JsonPatchError as error:
            if error.malformed:
                raise ApiError.bad_request(f"error decoding patch: {error}") from error
            # What exactly did not fit stays in the server's own log.
            raise ApiError(
                422, "Invalid", "the server rejected our request due to an error in our request", details={}
            ) from error
        except StrategicPatchError as error:
            raise ApiError(500, "", str(error)) from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ApiError.bad_request(f"error decoding patch: {error}") from error
        if not isinstance(new, dict):
            raise ApiError.bad_request("the patch does not make an object")
        return new

    return change


def _type(body: Any) -> str:
    return {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(body), "number")


def _apply(
    engine: Engine, resource: Resource, target: Target, config: Any, options: Options, call: Call
) -> Outcome:
    if not isinstance(config, dict):
        raise ApiError.bad_request(f"error decoding YAML: {gotext.plain(config)} is not an object")
    _check_config(resource, target, config)
    writer = Writer(options.manager, "Apply", resource.api_version, engine.now(), target.subresource)
    ignored = _ignored(resource, target.subresource)
    found = engine.store.get(resource.storage_key, target.namespace, target.name)
    version = config["metadata"].get("resourceVersion")
    if found is None:
        if target.subresource:
            raise ApiError.not_found(resource.group, resource.plural, target.name)
        if version:
            raise ApiError.conflict(
                resource.group,
                resource.plural,
                target.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            )
        outcome = applied(None, config, resource.shape, writer, force=options.force, ignored=ignored)
        fresh = Target(target.group, target.version, target.plural, target.namespace)
        return _created(engine, resource, fresh, outcome, options, call)
    kept: list[Applied] = []

    def transform(old: Object) -> Object:
        outcome = applied(old, config, resource.shape, writer, force=options.force, ignored=ignored)
        kept.append(outcome)
        return outcome.object

    return engine.change(
        resource,
        target,
        transform,
        options,
        call,
        managed=lambda _new: kept[0].managed_fields,
    )


def _ignored(resource: Resource, subresource: str) -> tuple[str, ...]:
    if subresource == "status":
        return ("spec",)
    return ("status",) if resource.has_status else ()


def _created(
    engine: Engine, resource: Resource, target: Target, outcome: Applied, options: Options, call: Call
) -> Outcome:
    obj = dict(outcome.object)
    writer_fields = outcome.managed_fields
    made = engine.create(resource, target, obj, Options(True, "Ignore", options.manager, options.force), call)
    new = {**made.obj, "metadata": {**made.obj["metadata"], "managedFields": writer_fields}}
    return engine._stored_new(resource, new, options)  # noqa: SLF001 - the second half of a creation


def _check_config(resource: Resource, target: Target, config: Object) -> None:
    metadata = config.get("metadata")
    if config.get("apiVersion") != resource.api_version or config.get("kind") != resource.kind:
        version = config.get("apiVersion") or "/"
        raise ApiError.bad_request(f"invalid object type: {version}, Kind={config.get('kind') or ''}")
    if metadata is None:
        metadata = config["metadata"] = {}
    spot = f"{metadata.get('namespace', '') if isinstance(metadata, dict) else ''}/{target.name}"
    if not isinstance(metadata, dict):
        raise ApiError.bad_request("metadata must be an object")
    if metadata.get("managedFields"):
        raise ApiError.bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", target.name)
    if metadata["name"] != target.name:
        raise ApiError.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
        )
    if target.namespace:
        if metadata.get("namespace") not in (None, target.namespace):
            raise ApiError.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = target.namespace
    complaints = list(mistyped(config, resource.shape))
    if complaints:
        told = complaints[0] if len(complaints) == 1 else "\n  ".join(("errors:", *complaints))
        raise ApiError(
            500,
            "",
            f"failed to create typed patch object ({spot}; {resource.api_version}, Kind={resource.kind}): {told}",
        )
