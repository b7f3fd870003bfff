# SPDX-License-Identifier: Apache-2.0
"""Objects and lists as bytes, in the version and form that a client asked for: whole, metadata only, or a table.

The JSON of a stored object is made once; here it only gets its head. Versions of a custom kind differ in the head
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from karpenter.sandbox.kube.engine.lists import Page
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.versions import STORED_AS, from_stored
from karpenter.sandbox.kube.storage.store import Stored

__all__ = ["encode", "list_bytes", "metadata_of_page", "object_bytes", "shown", "wants_metadata"]

_encoder: Final = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Gives JSON."""
    return _encoder.encode(value)


def wants_metadata(accept: str) -> bool:
    """Tells whether a client asks for metadata only."""
    return "as=PartialObjectMetadata" in accept and "g=meta.k8s.io" in accept


def _is_other_form(resource: Resource) -> bool:
    return (resource.group, resource.version, resource.plural) in STORED_AS


def shown(resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
    """Gives a stored object in a resource's version."""
    if _is_other_form(resource):
        return from_stored((resource.group, resource.version, resource.plural), obj)
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def object_bytes(resource: Resource, stored: Stored) -> bytes:
    """Gives the JSON of a stored object."""
    if _is_other_form(resource):
        return encode(shown(resource, stored.obj))
    return b'{"kind":"%b","apiVersion":"%b",%b' % (
        resource.kind.encode(),
        resource.api_version.encode(),
        stored.tail,
    )


def metadata_of_page(page: Page, *, custom: bool = False) -> dict[str, Any]:
    """Gives the metadata of a list; that of custom objects always names where it goes on, even if nowhere."""
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if custom:
        metadata["continue"] = ""
    if page.token:
        metadata["continue"] = page.token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def list_bytes(resource: Resource, page: Page) -> bytes:
    """Gives the JSON of a list; items of built-in kinds do not repeat their kind."""
    head = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (
        resource.list_kind.encode(),
        resource.api_version.encode(),
        encode(metadata_of_page(page, custom=resource.definition is not None)),
    )
    if resource.definition is not None:
        start = b'{"apiVersion":"%b","kind":"%b",' % (resource.api_version.encode(), resource.kind.encode())
        body = b",".join([start + each.tail for each in page.items])
    elif _is_other_form(resource):
        body = b",".join(
            encode(
                {
                    key: value
                    for key, value in shown(resource, each.obj).items()
                    if key not in {"kind", "apiVersion"}
                }
            )
            for each in page.items
        )
    else:
        body = b",".join([b"{" + each.tail for each in page.items])
    return head + body + b"]}"
