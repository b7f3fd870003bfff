# SPDX-License-Identifier: Apache-2.0
"""Writes to objects that others write to: every patch carries the version that it was decided on.

A merge patch replaces lists whole: the conditions of a status, the taints of a node, finalizers. Without a version it
would take back what another controller, a kubelet or a person has written since. So a patch is decided on the object as
it is known, sent with its version, and when the server has a newer one, that is read and the patch decided anew.
Nothing is sent when there is nothing to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from karpenter.api.base import Frozen
from karpenter.api.conditions import NODE_CLAIM, ConditionSet
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kube import Client, ConflictError, Informer, Kind, NotFoundError, UnreadableError
from karpenter.kube.kinds import metadata_of
from karpenter.state import Cluster

__all__ = [
    "add_finalizer",
    "change_conditions",
    "patch_decided",
    "remove_finalizer",
    "reread",
    "write_status",
]

T = TypeVar("T", bound=Frozen)

_TRIES: Final = 4


async def reread(client: Client, kind: Kind[T], name: str, namespace: str = "") -> T | None:
    """Return an object as the server has it now; None if it is gone.

    It is listed by its name: the right to watch a kind covers it.

    Raises:
        UnreadableError: It is there and does not decode.
    """
    listing = await client.list(kind, namespace, fields=f"metadata.name={name}")
    if listing.unreadable:
        raise UnreadableError(str(listing.unreadable[0]), hint="correct the field that is named")
    return next((each for each in listing.items if metadata_of(each).name == name), None)


async def patch_decided(
    client: Client,
    informer: Informer[T],
    item: T,
    decide: Callable[[T], Mapping[str, Any]],
    *,
    subresource: str = "",
) -> T | None:
    """Patch an object by what is decided on it; decide anew when it has changed meanwhile.

    Args:
        client: The API server.
        informer: The copy of the kind; it hears of what is written and read.
        item: The object as the caller knows it; a newer copy in the informer is taken instead.
        decide: Gives the merge patch for the object, without its version; empty if there is nothing to change.
        subresource: What of the object is patched, e.g. ``status``.

    Returns:
        The object as it is then; None if it is gone, or another of its name has taken its place.

    Raises:
        ConflictError: It is written to again and again.
    """
    before = metadata_of(item)
    current = informer.get(before.name, before.namespace) or item
    for _ in range(_TRIES):
        metadata = metadata_of(current)
        if metadata.uid != before.uid:
            return None
        change = decide(current)
        if not change:
            return current
        versioned = {**change.get("metadata", {}), "resourceVersion": metadata.resource_version}
        try:
            written = await client.patch(
                informer.kind,
                before.name,
                {**change, "metadata": versioned},
                before.namespace,
                subresource=subresource,
            )
        except NotFoundError:
            return None
        except ConflictError:
            found = await reread(client, informer.kind, before.name, before.namespace)
            if found is None:
                return None
            informer.observe(found)
            current = found
            continue
        is_gone = metadata_of(written).deletion_timestamp is not None and not metadata_of(written).finalizers
        (informer.observe_gone if is_gone else informer.observe)(written)
        return written
    kind = informer.kind
    raise ConflictError(
        f"{kind.described(before.namespace, before.name)} is written to without end", status=409
    )


async def write_status(
    client: Client, informer: Informer[T], item: Frozen, status: Mapping[str, Any]
) -> bool:
    """Write a status unless the object has changed since it was decided on; tell whether that is done, or it is gone.

    For those who decide anew from the beginning: they are told of a conflict and come again.
    """
    metadata = metadata_of(item)
    change = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
    try:
        written = await client.patch(
            informer.kind, metadata.name, change, metadata.namespace, subresource="status"
        )
    except ConflictError:
        return False
    except NotFoundError:
        return True
    informer.observe(written)
    return True


async def change_conditions(
    client: Client,
    cluster: Cluster,
    claim: NodeClaim,
    change: Callable[[ConditionSet], ConditionSet],
    status: Mapping[str, Any] | None = None,
) -> NodeClaim | None:
    """Change conditions of a claim, and more of its status with them; return the claim, or None if it is gone."""

    def decide(found: NodeClaim) -> Mapping[str, Any]:
        changed = change(ConditionSet.of(NODE_CLAIM, found.metadata, found.status.conditions))
        if changed.conditions == found.status.conditions and not status:
            return {}
        return {"status": {"conditions": changed.to_wire(), **(status or {})}}

    return await patch_decided(client, cluster.informers.claims, claim, decide, subresource="status")


async def add_finalizer(client: Client, informer: Informer[T], item: T, finalizer: str) -> T | None:
    """Put a finalizer on an object; return the object, or None if it is gone."""

    def decide(found: T) -> Mapping[str, Any]:
        known = metadata_of(found).finalizers
        return {} if finalizer in known else {"metadata": {"finalizers": [*known, finalizer]}}

    return await patch_decided(client, informer, item, decide)


async def remove_finalizer(client: Client, informer: Informer[T], item: T, finalizer: str) -> bool:
    """Take a finalizer off an object; tell whether the object was there."""

    def decide(found: T) -> Mapping[str, Any]:
        known = metadata_of(found).finalizers
        left = [each for each in known if each != finalizer]
        return {"metadata": {"finalizers": left}} if len(left) < len(known) else {}

    return await patch_decided(client, informer, item, decide) is not None
