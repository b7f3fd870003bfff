# SPDX-License-Identifier: Apache-2.0
"""What Karpenter 1.14.1 computes for random NodePool templates, and that we compute the same.

A row of ``poolhash_vectors.json`` has the number and the template. Durations, times, empty and missing lists and
mappings are among them: the number must be the same for every template, or a hand-over would replace all its nodes.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec

from karpenter.api.base import ABSENT
from karpenter.api.labels import PROVISIONER_NAME
from karpenter.api.nodepool import NodePool
from karpenter.model.hashes import pool_hash

VECTORS = json.loads((Path(__file__).parent / "poolhash_vectors.json").read_text(encoding="utf-8"))
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def _pool(template: dict[str, Any]) -> NodePool:
    manifest = {"metadata": {"name": "p"}, "spec": {"template": template}}
    return msgspec.convert(manifest, NodePool, strict=False)


def _hash(metadata: dict[str, Any] | None = None, **spec: Any) -> str:
    template = {"spec": {"requirements": [], "nodeClassRef": REFERENCE, **spec}}
    return pool_hash(_pool({**template, "metadata": metadata} if metadata is not None else template))


def test_the_fingerprint_of_a_pool_is_the_number_of_karpenter() -> None:
    differ = [template for number, template in VECTORS if pool_hash(_pool(template)) != number]

    assert differ == []
    assert len({number for number, _ in VECTORS}) > 150


def test_a_list_that_is_written_empty_is_not_one_that_is_left_out() -> None:
    assert _hash(taints=[]) != _hash()
    assert _hash({"labels": {}}) != _hash({"annotations": {}}) != _hash({}) == _hash()


def test_requirements_and_the_order_of_taints_do_not_count() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]

    assert _hash(taints=taints) == _hash(taints=taints[::-1])
    assert _hash(requirements=[{"key": "a", "operator": "Exists"}]) == _hash()


def test_the_label_of_a_provisioner_does_not_count_whatever_else_is_there() -> None:
    assert _hash({"labels": {PROVISIONER_NAME: "old"}}) == _hash()
    assert _hash({"labels": {PROVISIONER_NAME: "old", "a": "b"}}) == _hash({"labels": {"a": "b"}})


def test_a_length_of_time_that_nobody_can_read_counts_by_its_letters() -> None:
    assert len({_hash(expireAfter="soon"), _hash(expireAfter="later"), _hash(expireAfter="Never")}) == 3


def test_what_was_left_out_is_still_so_in_another_process() -> None:
    template = _pool({"spec": {"requirements": [], "nodeClassRef": REFERENCE}}).spec.template

    again = pickle.loads(pickle.dumps(template))  # noqa: S301 - our own

    assert again.spec.taints is ABSENT
    assert again == template
