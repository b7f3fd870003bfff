# SPDX-License-Identifier: Apache-2.0
"""What moves the fingerprint of a NodePool, and what does not."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.nodepool import NodePool
from karpenter.model.hashes import pool_hash

WORDS = st.text("abcß/.-", max_size=6)
MAPS = st.dictionaries(WORDS, WORDS, max_size=4)
TAINTS = st.lists(
    st.fixed_dictionaries({"key": WORDS, "effect": st.sampled_from(["NoSchedule", "NoExecute"])}),
    max_size=4,
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)
TEMPLATES = st.fixed_dictionaries(
    {}, optional={"labels": MAPS, "annotations": MAPS, "taints": TAINTS, "startupTaints": TAINTS}
)


def _hash(template: dict[str, Any]) -> str:
    spec = {key: template[key] for key in ("taints", "startupTaints") if key in template}
    metadata = {key: template[key] for key in ("labels", "annotations") if key in template}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    whole: dict[str, Any] = {"metadata": metadata}
    whole["spec"] = {"requirements": [], "nodeClassRef": reference, **spec}
    pool = {"metadata": {"name": "p"}, "spec": {"template": whole}}
    return pool_hash(msgspec.convert(pool, NodePool, strict=False))


def _turned(value: Any) -> Any:
    return dict(reversed(value.items())) if isinstance(value, dict) else value[::-1]


@given(TEMPLATES)
def test_the_order_in_which_things_are_written_does_not_matter(template: dict[str, Any]) -> None:
    assert _hash({key: _turned(value) for key, value in template.items()}) == _hash(template)


@given(TEMPLATES, TEMPLATES)
def test_templates_that_differ_have_other_numbers(one: dict[str, Any], other: dict[str, Any]) -> None:
    def plain(template: dict[str, Any]) -> Any:
        return {
            key: value if isinstance(value, dict) else sorted(map(str, value))
            for key, value in template.items()
        }

    assert (_hash(one) == _hash(other)) == (plain(one) == plain(other))
