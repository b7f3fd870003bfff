# SPDX-License-Identifier: Apache-2.0
"""ControllerRevisions: the history of templates that DaemonSets and StatefulSets keep for ``kubectl rollout``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from karpenter.sandbox.workloads.podstate import template_hash
from karpenter.sandbox.workloads.resources import REVISION, Resource, Wire, owner_reference
from karpenter.sandbox.workloads.world import World

__all__ = ["HASH", "History", "mark_of", "settle_history"]

HASH = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class History:
    """The revisions of an owner, oldest first; the last is the one its template asks for."""

    revisions: tuple[Wire, ...]

    @property
    def current(self) -> Wire:
        """Gives the revision of the present template."""
        return self.revisions[-1]

    def template(self, revision: str) -> Wire | None:
        """Gives the template of a revision, by its name; None if it is forgotten."""
        for each in self.revisions:
            if each["metadata"]["name"] == revision:
                found: Wire = each["data"]["spec"]["template"]
                return {key: value for key, value in found.items() if key != "$patch"}
        return None


def mark_of(revision: Wire) -> str:
    """Gives the value that pods of a revision carry in the label ``HASH``."""
    found: str = revision["metadata"]["labels"][HASH]
    return found


async def settle_history(world: World, resource: Resource, owner: Wire, in_use: Collection[str]) -> History:
    """Makes sure that the present template has the newest revision, and forgets those beyond the limit.

    Args:
        world: The cluster.
        resource: The owner's kind.
        owner: The owner.
        in_use: The names of revisions that must not be forgotten.
    """
    known = sorted(
        world.store(REVISION).owned_by(owner["metadata"]["uid"]), key=lambda each: int(each["revision"])
    )
    data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
    number = int(known[-1]["revision"]) + 1 if known else 1
    same = next((each for each in known if _plain(each["data"]) == _plain(data)), None)
    if same is None:
        same = await world.create(REVISION, _revision(resource, owner, data, number))
    elif same is not known[-1]:
        same = await world.patch(REVISION, same, {"revision": number}) or same
    others = [each for each in known if each["metadata"]["uid"] != same["metadata"]["uid"]]
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    spent = [each for each in others if each["metadata"]["name"] not in in_use]
    forgotten = spent[: max(len(spent) - limit, 0)]
    for each in forgotten:
        await world.delete(REVISION, each)
    gone = {each["metadata"]["uid"] for each in forgotten}
    return History((*(each for each in others if each["metadata"]["uid"] not in gone), same))


def _revision(resource: Resource, owner: Wire, data: Wire, number: int) -> Wire:
    template = owner["spec"]["template"]
    mark = template_hash(template, (owner.get("status") or {}).get("collisionCount") or 0)
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{owner['metadata']['name']}-{mark}",
            "namespace": owner["metadata"]["namespace"],
            "labels": {**labels, HASH: mark},
            "annotations": dict(owner["metadata"].get("annotations") or {}),
            "ownerReferences": [owner_reference(resource, owner)],
        },
        "data": data,
        "revision": number,
    }


def _plain(data: Wire) -> Wire:
    template = dict(data["spec"]["template"])
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    template["metadata"] = metadata
    return template
