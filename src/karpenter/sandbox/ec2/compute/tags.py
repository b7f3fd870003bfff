# SPDX-License-Identifier: Apache-2.0
"""Tags on anything that has an id: CreateTags, DeleteTags, DescribeTags.

One unknown id refuses the whole call, with the code of its kind. Tags of an instance are seen by lists after the
tag lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.sandbox.ec2.compute.filters import Field, cut, matching
from karpenter.sandbox.ec2.compute.instances import publish_tags, visible
from karpenter.sandbox.ec2.compute.listing import check_tags, unknown_id
from karpenter.sandbox.ec2.compute.records import Instance, Record
from karpenter.sandbox.ec2.compute.seam import Params, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Change, Store

__all__ = ["create_tags", "delete_tags", "describe_tags"]


def create_tags(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateTags."""
    records = _records(ec2, params)
    if not params.get("Tags"):
        raise missing("Tags")
    tags = {tag["Key"]: tag.get("Value", "") for tag in params["Tags"]}
    for record in records:
        check_tags(tags, had=record.tags)
    stop_if_dry_run(params)
    for record in records:
        record.tags = {**record.tags, **tags}
        _changed(ec2, record)
    return {}


def delete_tags(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeleteTags; without tags all go, and a tag with a value goes only if it has that value."""
    records = _records(ec2, params)
    stop_if_dry_run(params)
    named = params.get("Tags")
    for record in records:
        kept = dict(record.tags) if named else {}
        for tag in named or ():
            if "Value" not in tag or kept.get(tag["Key"]) == tag["Value"]:
                kept.pop(tag["Key"], None)
        record.tags = kept
        _changed(ec2, record)
    return {}


@dataclass(frozen=True, slots=True)
class _Tag:
    record: Record
    key: str
    value: str
    tags: Mapping[str, str]

    @property
    def place(self) -> str:
        return f"{self.record.seq:012d}\x1f{self.key}"


_FIELDS: Final[Mapping[str, Field]] = {
    "key": lambda tag: tag.key,
    "value": lambda tag: tag.value,
    "resource-id": lambda tag: tag.record.id,
    "resource-type": lambda tag: tag.record.kind,
}


def describe_tags(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeTags."""
    rows = [
        _Tag(record, key, value, {key: value})
        for record in ec2.records.values()
        for key, value in sorted(_shown(record).items())
    ]
    passed = sorted(matching(rows, params.get("Filters") or (), _FIELDS), key=lambda row: row.place)
    page, token = cut(passed, params, lambda row: row.place)
    views = [
        {"ResourceId": row.record.id, "ResourceType": row.record.kind, "Key": row.key, "Value": row.value}
        for row in page
    ]
    return {"Tags": views, **token}


def _records(ec2: Store, params: Params) -> list[Record]:
    ids = params.get("Resources") or ()
    if not ids:
        raise missing("ResourceIdSet")
    for each in ids:
        record = ec2.records.get(each)
        if record is None or (isinstance(record, Instance) and not visible(record)):
            raise unknown_id(each)
    return [ec2.records[each] for each in ids]


def _shown(record: Record) -> Mapping[str, str]:
    if isinstance(record, Instance):
        return record.seen.tags if record.seen else {}
    return record.tags


def _changed(ec2: Store, record: Record) -> None:
    if isinstance(record, Instance):
        now = ec2.now()
        publish_tags(ec2, record, now)
        ec2.tell(Change(record, "tags", now))
