# SPDX-License-Identifier: Apache-2.0
"""From a request to an answer: who asks, which resource, which verb.

Everything that can be refused is an `ApiError` and becomes a Status. A watch is answered by a stream; everything else
by bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.sandbox.kube.engine import deleting, reviews, streams, subresources
from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.engine.calls import Call, Target, User, parse_target, write_options
from karpenter.sandbox.kube.engine.engine import Engine, Outcome
from karpenter.sandbox.kube.engine.lists import list_page, selector_of
from karpenter.sandbox.kube.engine.patches import patch, patched
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.protobuf import PROTOBUF
from karpenter.sandbox.kube.kinds.versions import STORED_AS, from_stored, to_stored
from karpenter.sandbox.kube.serving import discovery
from karpenter.sandbox.kube.serving.forms import (
    encode,
    list_bytes,
    metadata_of_page,
    object_bytes,
    shown,
    wants_metadata,
)
from karpenter.sandbox.kube.serving.openapi import Documents
from karpenter.sandbox.kube.serving.tables import table, wants_table
from karpenter.sandbox.kube.serving.watches import Watch, partial

__all__ = ["Answer", "Dispatcher"]

Object = dict[str, Any]
_OPEN: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_JSON: Final = "application/json"
_PROTOBUF_DOCUMENT: Final = "application/com.github.proto-openapi.spec.v2"
# Asked for with an @, and answered without: Go cannot parse one in a media type.
_PROTOBUF_FORM: Final = f"{_PROTOBUF_DOCUMENT}.v1.0+protobuf"
_OLD_ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_PRESERVED: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_OPTIONS: Final = {"POST": "Create", "PUT": "Update", "PATCH": "Patch"}


@dataclass(slots=True)
class Answer:
    """What goes back: bytes, or a watch."""

    status: int = 200
    body: bytes = b""
    content_type: str = _JSON
    headers: dict[str, str] = field(default_factory=dict)
    watch: Watch | None = None


class Dispatcher:
    """Answers requests.

    Args:
        engine: The objects.
        users: Who a token stands for.
        version: The Kubernetes version to announce; empty for the one whose behaviour is modelled.
    """

    def __init__(self, engine: Engine, users: Mapping[str, User], version: str = "") -> None:
        self._engine = engine
        self._users = users
        self._version = discovery.version(version)
        self._documents = Documents(engine.catalogue)

    def user(self, headers: Mapping[str, str], path: str) -> User:
        """Tells who asks.

        Raises:
            ApiError: nobody vouches for the caller (401).
        """
        kind, _, token = headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and token.strip() in self._users:
            return self._users[token.strip()]
        if path in _OPEN and not token:
            return User("system:anonymous", ("system:unauthenticated",))
        raise ApiError.unauthorized()

    def answer(self, call: Call) -> Answer:
        """Answers one request; refusals are answers too."""
        try:
            made = self._answer(call)
        except ApiError as error:
            made = Answer(error.code, encode(error.body()), headers=dict(error.headers))
        if call.warnings:
            made.headers["Warning"] = ", ".join(
                f'299 - "{_quoted(each)}"' for each in dict.fromkeys(call.warnings)
            )
        return made

    def _answer(self, call: Call) -> Answer:
        target = parse_target(call.path)
        if target is None:
            return self._other(call)
        call.target = target
        resource: Resource | None = self._engine.catalogue.find(target.group, target.version, target.plural)
        if resource is None:
            if self._engine.catalogue.of_version(target.group, target.version):
                raise ApiError.no_such_path()
            return _not_here()
        if target.namespace and not resource.namespaced:
            raise ApiError.no_such_path()
        if target.subresource and target.subresource not in resource.subresources:
            if not resource.group and (resource.plural, target.subresource) in streams.NEEDS_PROCESS:
                raise streams.refuse_stream(self._engine, resource, target)
            raise ApiError.no_such_path()
        _warn(call, resource)
        return self._resource(call, resource, target)

    def _other(self, call: Call) -> Answer:  # noqa: C901 - one path after the other
        catalogue, path = self._engine.catalogue, call.path.rstrip("/") or "/"
        accept = call.headers.get("Accept", "")
        if path in {"/healthz", "/livez", "/readyz"} or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return Answer(body=b"ok", content_type="text/plain; charset=utf-8")
        if path == "/version":
            return Answer(body=encode(self._version))
        if path in {"/api", "/apis"}:
            return self._roots(path, accept)
        parts = path.split("/")[1:]
        found: Object | None = None
        if path == "/api/v1":
            found = discovery.resources(catalogue, "", "v1")
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(catalogue, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resources(catalogue, parts[1], parts[2])
            if found is None and parts[1] in catalogue.groups():
                raise ApiError.no_such_path()
        elif path == "/openapi/v3":
            found = self._documents.index()
        elif path.startswith("/openapi/v3/"):
            document = self._documents.document(path.removeprefix("/openapi/v3/"))
            return Answer(body=document) if document is not None else _not_here()
        elif path == "/openapi/v2":
            return self._swagger(accept)
        elif path == "/":
            found = {
                "paths": sorted(
                    [
                        "/api",
                        "/apis",
                        "/healthz",
                        "/livez",
                        "/openapi/v2",
                        "/openapi/v3",
                        "/readyz",
                        "/version",
                        "/api/v1",
                        *(
                            f"/apis/{name}/{each}"
                            for name, versions in catalogue.groups().items()
                            for each in versions
                        ),
                    ]
                )
            }
        return Answer(body=encode(found)) if found is not None else _not_here()

    def _swagger(self, accept: str) -> Answer:
        if _PROTOBUF_DOCUMENT in accept and _JSON not in accept:
            return Answer(body=self._documents.swagger_head(), content_type=_PROTOBUF_FORM)
        return Answer(body=self._documents.swagger())

    def _roots(self, path: str, accept: str) -> Answer:
        catalogue = self._engine.catalogue
        if form := discovery.wants_aggregated(accept):
            kind = f"{_JSON};g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
            return Answer(
                body=encode(discovery.aggregated(catalogue, core=path == "/api", form=form)),
                content_type=kind,
            )
        if path == "/apis":
            return Answer(body=encode(discovery.groups(catalogue)))
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
        return Answer(
            body=encode({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]})
        )

    def _resource(self, call: Call, resource: Resource, target: Target) -> Answer:  # noqa: C901, PLR0911 - one verb after the other
        if not resource.is_stored:
            if call.method != "POST" or target.name:
                raise ApiError.method_not_allowed()
            if resource.kind == "Binding":
                return Answer(201, encode(subresources.bind(self._engine, target, call)))
            return Answer(201, encode(reviews.review(resource, call, self._users)))
        if resource.group == "metrics.k8s.io":
            if call.method != "GET":
                raise ApiError.method_not_allowed()
            return Answer(body=encode(reviews.metrics(self._engine, resource, target, call)))
        if target.subresource not in {"", "status"}:
            return self._subresource(call, resource, target)
        method = call.method
        if method == "GET":
            return self._get(call, resource, target)
        if resource.namespaced and not target.namespace:
            raise ApiError.method_not_allowed()
        if method == "POST" and not target.name:
            return self._create(call, resource, target)
        if method in {"PUT", "PATCH"} and target.name:
            return self._change(call, resource, target)
        if method == "DELETE" and not target.subresource:
            return self._delete(call, resource, target)
        raise ApiError.method_not_allowed()

    def _get(self, call: Call, resource: Resource, target: Target) -> Answer:  # noqa: PLR0911 - one answer a form
        accept = call.headers.get("Accept", "")
        if (
            "watch" in resource.verbs
            and (call.flag("watch") or call.query.get("watch") == "")
            and "watch" in call.query
        ):
            return Answer(watch=Watch(self._engine, resource, target, call))
        now = self._engine.moment()
        include = call.query.get("includeObject", "Metadata")
        if target.name:
            if resource.namespaced and not target.namespace:
                raise ApiError.no_such_path()
            stored = self._engine.stored(resource, target)
            if wants_table(accept):
                version = {"resourceVersion": stored.obj["metadata"]["resourceVersion"]}
                return Answer(
                    body=encode(
                        table(resource, [shown_for_cells(resource, stored.obj)], version, now, include)
                    )
                )
            if wants_metadata(accept):
                return Answer(body=encode(partial(stored.obj)))
            return Answer(body=object_bytes(resource, stored))
        page = list_page(self._engine, resource, target, call)
        if wants_table(accept):
            objects = [shown_for_cells(resource, each.obj) for each in page.items]
            return Answer(body=encode(table(resource, objects, metadata_of_page(page), now, include)))
        if wants_metadata(accept):
            items = [partial(each.obj) for each in page.items]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            return Answer(body=encode({**head, "metadata": metadata_of_page(page), "items": items}))
        return Answer(body=list_bytes(resource, page))

    def _create(self, call: Call, resource: Resource, target: Target) -> Answer:
        options = write_options(call, "Create")
        sent = self._body(call, resource)
        stored_as = self._stored_form(resource)
        outcome = self._engine.create(stored_as, target, sent, options, call)
        return Answer(201, self._written(resource, outcome))

    def _change(self, call: Call, resource: Resource, target: Target) -> Answer:
        options = write_options(call, _OPTIONS[call.method])
        stored_as = self._stored_form(resource)
        if call.method == "PUT":
            sent = self._body(call, resource)
            outcome = self._engine.update(stored_as, target, sent, options, call)
        elif stored_as is not resource and call.content_type != "application/apply-patch+yaml":
            key = (resource.group, resource.version, resource.plural)
            change = patched(call.content_type, parse_body(call.body, call.content_type), resource.shape)
            outcome = self._engine.change(
                stored_as, target, lambda old: to_stored(key, change(from_stored(key, old))), options, call
            )
        else:
            if stored_as is not resource:
                body = parse_body(call.body, call.content_type)
                key = (resource.group, resource.version, resource.plural)
                call.body = encode(to_stored(key, body))
            outcome = patch(self._engine, stored_as, target, options, call)
        return Answer(201 if outcome.created else 200, self._written(resource, outcome))

    def _body(self, call: Call, resource: Resource) -> Any:
        if call.content_type not in {"", _JSON, "application/yaml", PROTOBUF}:
            raise ApiError.unsupported_media(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )
        sent = parse_body(call.body, call.content_type, resource.kind)
        key = (resource.group, resource.version, resource.plural)
        return to_stored(key, sent) if key in STORED_AS and isinstance(sent, dict) else sent

    def _stored_form(self, resource: Resource) -> Resource:
        key = (resource.group, resource.version, resource.plural)
        if key not in STORED_AS:
            return resource
        found = self._engine.catalogue.find(*STORED_AS[key], resource.plural)
        assert found is not None  # noqa: S101 - the table names what is built in
        return found

    def _written(self, resource: Resource, outcome: Outcome) -> bytes:
        if outcome.stored is not None:
            return object_bytes(resource, outcome.stored)
        return encode(shown(resource, outcome.obj))

    def _delete(self, call: Call, resource: Resource, target: Target) -> Answer:
        options = deleting.delete_options(call)
        if not target.name:
            if "deletecollection" not in resource.verbs:
                raise ApiError.method_not_allowed()
            return self._delete_collection(call, resource, target, options)
        obj, gone = deleting.delete(self._engine, resource, target, options)
        if gone and not self._engine.behaviour(resource).returns_deleted:
            return Answer(body=encode(deleting.deletion_status(resource, obj)))
        return Answer(body=encode(shown(resource, obj)))

    def _delete_collection(self, call: Call, resource: Resource, target: Target, options: Object) -> Answer:
        selects = selector_of(resource, call, target)
        chosen = [
            each.obj
            for each in self._engine.store.items(resource.storage_key, target.namespace)
            if selects is None or selects(each.obj)
        ]
        told = []
        for obj in chosen:
            metadata = obj["metadata"]
            spot = Target(
                target.group, target.version, target.plural, metadata.get("namespace", ""), metadata["name"]
            )
            left, _gone = deleting.delete(self._engine, resource, spot, options)
            told.append(left)
        items = [
            {
                key: value
                for key, value in shown(resource, each).items()
                if resource.definition is not None or key not in {"kind", "apiVersion"}
            }
            for each in told
        ]
        head = {"kind": resource.list_kind, "apiVersion": resource.api_version}
        more = {"continue": ""} if resource.definition is not None else {}
        return Answer(
            body=encode(
                {
                    **head,
                    "metadata": {**more, "resourceVersion": str(self._engine.store.revision)},
                    "items": items,
                }
            )
        )

    def _subresource(self, call: Call, resource: Resource, target: Target) -> Answer:  # noqa: PLR0911 - one answer a subresource
        name, method, engine = target.subresource, call.method, self._engine
        if name == "scale":
            if method == "GET":
                return Answer(body=encode(subresources.read_scale(engine, resource, target)))
            if method in {"PUT", "PATCH"}:
                options = write_options(call, _OPTIONS[method])
                return Answer(body=encode(subresources.write_scale(engine, resource, target, options, call)))
        if method == "POST" and name == "eviction":
            return Answer(201, encode(subresources.evict(engine, resource, target, call)))
        if method == "POST" and name == "binding":
            return Answer(201, encode(subresources.bind(engine, target, call)))
        if method == "POST" and name == "token":
            return Answer(201, encode(subresources.token(engine, resource, target, call)))
        if method == "PUT" and name == "finalize":
            options = write_options(call, "Update")
            return Answer(
                body=self._written(resource, subresources.finalize(engine, resource, target, options, call))
            )
        if method == "GET" and name == "log":
            return Answer(body=streams.pod_log(engine, resource, target, call), content_type="text/plain")
        if method == "GET" and "get" in resource.subresources[name]["verbs"]:
            return Answer(body=object_bytes(resource, engine.stored(resource, target)))
        raise ApiError.method_not_allowed()


def shown_for_cells(resource: Resource, obj: Mapping[str, Any]) -> Object:
    """Gives an object as the cells of its table read it: events always in their stored form."""
    return dict(obj) if resource.storage_key == "/events" else shown(resource, obj)


def _warn(call: Call, resource: Resource) -> None:
    """Tells the caller of a kind or version that is on its way out."""
    told = resource.version_spec
    if told is not None and told.get("deprecated"):
        call.warnings.append(
            told.get("deprecationWarning") or f"{resource.api_version} {resource.kind} is deprecated"
        )
    elif resource.storage_key == "/endpoints":
        call.warnings.append(_OLD_ENDPOINTS)
    elif resource.storage_key == "batch/jobs" and call.method == "DELETE" and not call.body:
        told_what = call.query.keys() & {"propagationPolicy", "orphanDependents"}
        call.warnings += [] if told_what else [_PRESERVED]


def _not_here() -> Answer:
    return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
