# SPDX-License-Identifier: Apache-2.0
"""The verbs on objects: get, create, update and patch, over one store and one catalogue.

Every write goes the same way: read the stored object, make the new one from it, admit it, settle who owns which
field, store it at the revision that was read. A dry run stops before the store. Nothing is written where nothing
changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from karpenter.api.schema.problems import invalid as invalid_problem
from karpenter.kit.clock import Clock, SystemClock
from karpenter.sandbox.kube.engine.admission import (
    admit_creation,
    admit_update,
    check_namespace,
    random_suffix,
)
from karpenter.sandbox.kube.engine.admitting import (
    admit_custom,
    check_identity,
    judged,
    prepared,
    read_object,
)
from karpenter.sandbox.kube.engine.calls import Call, Options, Target
from karpenter.sandbox.kube.engine.policies import check_policies
from karpenter.sandbox.kube.errors import ApiError, invalid
from karpenter.sandbox.kube.kinds.behaviour import Behaviour, behaviour_of
from karpenter.sandbox.kube.kinds.catalogue import Catalogue, Resource
from karpenter.sandbox.kube.kinds.reading import empty_struct, written_time
from karpenter.sandbox.kube.patching.managed import Writer, tracked
from karpenter.sandbox.kube.storage.store import ConflictError, Store, Stored

__all__ = ["Engine", "Outcome"]

Object = dict[str, Any]
_LONGEST_BASE: Final = 58
_TRIES: Final = 8
_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Outcome:
    """What a write led to: the object, and whether it is new."""

    __slots__ = ("created", "obj", "stored")

    def __init__(self, obj: Object, *, stored: Stored | None = None, created: bool = False) -> None:
        self.obj = obj
        self.stored = stored
        self.created = created


class Engine:
    """The objects and the rules for changing them.

    Attributes:
        store: The objects.
        catalogue: The resources that are served.
        clock: Where times come from.
    """

    def __init__(self, store: Store | None = None, clock: Clock | None = None) -> None:
        self.store = store or Store()
        self.catalogue = Catalogue()
        self.clock = clock or SystemClock()

    def now(self) -> str:
        """Gives the time as objects carry it."""
        return written_time(self.clock.now())

    def moment(self) -> datetime:
        """Gives the time."""
        return self.clock.now()

    def behaviour(self, resource: Resource) -> Behaviour:
        """Gives what is special about a resource."""
        return behaviour_of(resource.storage_key, custom=resource.definition is not None)

    def stored(self, resource: Resource, target: Target) -> Stored:
        """Gives one stored object.

        Raises:
            ApiError: there is none (404).
        """
        found = self.store.get(resource.storage_key, target.namespace, target.name)
        if found is None:
            raise ApiError.not_found(resource.group, resource.plural, target.name)
        return found

    def create(self, resource: Resource, target: Target, sent: Any, options: Options, call: Call) -> Outcome:
        """Makes a new object.

        Raises:
            ApiError: it may not be made.
        """
        body = check_identity(resource, sent, call.body)
        obj = read_object(resource, body, options, call)
        metadata = self._own_metadata(resource, target, obj)
        if resource.namespaced:
            check_namespace(self.store, resource, target.namespace, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(resource, target.namespace, metadata["generateName"])
        metadata.pop("deletionTimestamp", None)
        metadata.pop("deletionGracePeriodSeconds", None)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
        metadata.pop("managedFields", None)
        obj["metadata"] = metadata
        if resource.definition is None:
            # Before admission: what plugins and strategies add is nobody's.
            ignored = ("status",) if resource.has_status else ()
            self._track(resource, empty_struct(resource.shape), obj, options, "", ignored)
        if resource.definition is not None:
            obj = admit_custom(
                resource, obj, None, options, call, subresource="", namespace=target.namespace or "default"
            )
            obj["metadata"] |= {"uid": metadata["uid"], "creationTimestamp": metadata["creationTimestamp"]}
        else:
            obj = prepared(resource, obj, None, "")
            if metadata.get("name"):
                admit_creation(self.store, resource, obj)
            obj = judged(resource, obj, None, "")
        if resource.definition is not None:
            self._track(
                resource, {"metadata": {}}, obj, options, "", ("status",) if resource.has_status else ()
            )
        check_policies(self.store, resource, target, obj, None, options, call)
        return self._stored_new(resource, obj, options)

    def _free_name(self, resource: Resource, namespace: str, base: str) -> str:
        """Gives a name that nobody has; among many thousand, some would meet."""
        name = base
        for _ in range(_TRIES):
            name = base[:_LONGEST_BASE] + random_suffix()
            if self.store.get(resource.storage_key, namespace, name) is None:
                break
        return name

    def _stored_new(self, resource: Resource, obj: Object, options: Options) -> Outcome:
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if self.store.get(resource.storage_key, *key) is not None:
            raise self._taken(resource, metadata)
        if options.dry_run:
            return Outcome(obj, created=True)
        stored = self.store.put(resource.storage_key, obj, None)
        return Outcome(stored.obj, stored=stored, created=True)

    def _taken(self, resource: Resource, metadata: Mapping[str, Any]) -> ApiError:
        error = ApiError.already_exists(resource.group, resource.plural, metadata["name"])
        if metadata.get("generateName"):
            error.details = {**(error.details or {}), "retryAfterSeconds": 1}
        return error

    def _own_metadata(self, resource: Resource, target: Target, obj: Object) -> Object:
        """Gives the metadata of a sent object with the namespace of the request."""
        metadata = obj.get("metadata")
        metadata = dict(metadata) if isinstance(metadata, dict) else {} if metadata is None else metadata
        if not isinstance(metadata, dict):
            # Only a custom object gets here; its definition has the words for it.
            raise ApiError.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: cannot '
                f"unmarshal {type(metadata).__name__} into Go struct field .metadata of type v1.ObjectMeta"
            )
        if resource.namespaced:
            if metadata.get("namespace") not in (None, "", target.namespace):
                raise ApiError.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = target.namespace
        else:
            # Kubernetes takes it as said by mistake.
            metadata.pop("namespace", None)
        return metadata

    def update(self, resource: Resource, target: Target, sent: Any, options: Options, call: Call) -> Outcome:
        """Replaces an object, or one of its subresources.

        Raises:
            ApiError: it may not be replaced so.
        """
        body = check_identity(resource, sent, call.body)
        obj = read_object(resource, body, options, call)
        metadata = self._own_metadata(resource, target, obj)
        if metadata.get("name", target.name) != target.name:
            raise ApiError.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        if not metadata.get("name"):
            raise ApiError.bad_request(
                f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            )
        obj["metadata"] = metadata
        found = self.store.get(resource.storage_key, target.namespace, target.name)
        behaviour = self.behaviour(resource)
        if found is None:
            if behaviour.creates_on_update and not metadata.get("resourceVersion") and not target.subresource:
                fresh = Target(target.group, target.version, target.plural, target.namespace)
                return self.create(resource, fresh, sent, options, call)
            raise ApiError.not_found(resource.group, resource.plural, target.name)
        if not metadata.get("resourceVersion") and not behaviour.unconditional:
            raise _unversioned(resource, target.name)
        return self.change(resource, target, lambda _old: obj, options, call, read=True)

    def change(
        self,
        resource: Resource,
        target: Target,
        transform: Callable[[Object], Object],
        options: Options,
        call: Call,
        *,
        read: bool = False,
        managed: Callable[[Object], list[Object]] | None = None,
    ) -> Outcome:
        """Makes a new state of a stored object and stores it.

        Args:
            resource: Its kind.
            target: Which object, and which subresource is written.
            transform: Makes the new state; the stored object is not to be changed.
            options: Of the write.
            call: The request, which takes warnings.
            read: The new state was read by the kind's shape already.
            managed: Gives the managed fields, where they are not simply tracked.

        Raises:
            ApiError: the new state is refused, or is of an older revision.
        """
        found = self.stored(resource, target)
        old = found.obj
        new = transform(old)
        if not read:
            new = read_object(resource, new, options, call, old)
        new = {**new, "metadata": dict(new["metadata"])} if isinstance(new.get("metadata"), dict) else new
        if not resource.namespaced and isinstance(new.get("metadata"), dict):
            new["metadata"].pop("namespace", None)
        self._check_preconditions(resource, target, new, found)
        subresource = target.subresource if target.subresource == "status" else ""
        if resource.definition is not None:
            new = admit_custom(
                resource, new, old, options, call, subresource=subresource, namespace=target.namespace
            )
            self._own(resource, old, new, options, target, managed)
        else:
            self._own(resource, old, new, options, target, managed)
            admit_update(resource, new, old)
            new = prepared(resource, new, old, subresource)
            new = judged(resource, new, old, target.subresource)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        check_policies(self.store, resource, target, new, old, options, call)
        return self._stored_change(resource, found, new, options)

    def _own(
        self,
        resource: Resource,
        old: Object,
        new: Object,
        options: Options,
        target: Target,
        managed: Callable[[Object], list[Object]] | None,
    ) -> None:
        """Settles who owns which field."""
        if managed is not None:
            new["metadata"]["managedFields"] = managed(new)
            return
        subresource = target.subresource if target.subresource == "status" else ""
        ignored = self._ignored(resource, subresource)
        self._track(
            resource,
            old,
            new,
            options,
            target.subresource,
            ignored,
            sent=new["metadata"].get("managedFields"),
        )

    def _ignored(self, resource: Resource, subresource: str) -> tuple[str, ...]:
        if subresource == "status":
            return tuple(
                key for key in ("spec", "metadata") if key != "metadata" or resource.definition is not None
            )
        return ("status",) if resource.has_status else ()

    def _check_preconditions(self, resource: Resource, target: Target, new: Object, found: Stored) -> None:
        metadata = new.get("metadata")
        if not isinstance(metadata, dict):
            return
        version = metadata.get("resourceVersion")
        if version and version != found.obj["metadata"]["resourceVersion"]:
            if not str(version).isdigit():
                raise ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
            raise ApiError.conflict(resource.group, resource.plural, target.name, _MODIFIED)
        self.check_uid(resource, target, metadata.get("uid"), found)

    def check_uid(self, resource: Resource, target: Target, uid: Any, found: Stored) -> None:
        """Sees that a request means the object that there is, and not an earlier one of its name.

        Raises:
            ApiError: it means another.
        """
        if uid and uid != found.obj["metadata"]["uid"]:
            raise ApiError.conflict(
                resource.group,
                resource.plural,
                target.name,
                f"StorageError: invalid object, Code: 4, Key: /registry/{self._storage_path(resource, target)}, "
                f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in "
                f"object meta: {found.obj['metadata']['uid']}",
            )

    def _storage_path(self, resource: Resource, target: Target) -> str:
        group = f"{resource.group}/" if resource.definition is not None else ""
        return "/".join(part for part in (f"{group}{resource.plural}", target.namespace, target.name) if part)

    def _track(
        self,
        resource: Resource,
        old: Mapping[str, Any],
        new: Object,
        options: Options,
        subresource: str,
        ignored: tuple[str, ...],
        sent: list[Object] | None = None,
    ) -> None:
        writer = Writer(options.manager, "Update", resource.api_version, self.now(), subresource)
        if sent is None or sent == (old.get("metadata") or {}).get("managedFields"):
            new["metadata"].pop("managedFields", None)
        entries = tracked(old, new, resource.shape, writer, ignored)
        if entries:
            new["metadata"]["managedFields"] = entries
        else:
            new["metadata"].pop("managedFields", None)

    def _stored_change(self, resource: Resource, found: Stored, new: Object, options: Options) -> Outcome:
        old = found.obj
        metadata = new["metadata"]
        if _same(new, old):
            return Outcome(old, stored=found)
        if options.dry_run:
            return Outcome(new)
        try:
            if is_over(new):
                new["metadata"]["resourceVersion"] = str(self.store.revision)
                stored = self.store.put(resource.storage_key, new, found.revision)
                gone = self.store.remove(
                    resource.storage_key, metadata.get("namespace", ""), metadata["name"], stored.revision
                )
                return Outcome(gone.obj, stored=gone)
            stored = self.store.put(resource.storage_key, new, found.revision)
        except ConflictError as error:
            raise ApiError.conflict(resource.group, resource.plural, metadata["name"], _MODIFIED) from error
        return Outcome(stored.obj, stored=stored)


def _unversioned(resource: Resource, name: str) -> ApiError:
    problem = invalid_problem("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid(resource.group, resource.plural, name, [problem])


def is_over(obj: Mapping[str, Any]) -> bool:
    """Tells whether an object that is being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers"))


def _same(new: Object, old: Object) -> bool:
    """Tells whether nothing changed but the times of managers."""
    if new == old:
        return True
    if any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - {"metadata"}):
        return False
    ours, theirs = new["metadata"], old["metadata"]
    if any(ours.get(key) != theirs.get(key) for key in (ours.keys() | theirs.keys()) - {"managedFields"}):
        return False

    def timeless(entries: list[Object] | None) -> list[Object]:
        return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or ()]

    return timeless(ours.get("managedFields")) == timeless(theirs.get("managedFields"))
