# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api.legacy.conversion.findings import ObjectRef
from karpenter.api.legacy.conversion.kubelets import ClassUser, variants_of


def user(position: int, name: str, **kubelet: Any) -> ClassUser:
    return ClassUser(ObjectRef("Provisioner", name, position), kubelet)


def test_a_class_without_users_is_made_once_without_settings() -> None:
    (only,) = variants_of("shared", [], {"shared"})

    assert (only.name, only.kubelet, only.users) == ("shared", {}, ())


def test_users_with_the_same_settings_share_one_class_whatever_their_order() -> None:
    users = [user(0, "a", maxPods=5, podsPerCore=2), user(1, "b", podsPerCore=2, maxPods=5)]

    (only,) = variants_of("shared", users, {"shared"})

    assert only.kubelet == {"maxPods": 5, "podsPerCore": 2}
    assert only.users == tuple(users)


def test_the_setting_that_most_use_keeps_the_name() -> None:
    users = [user(0, "a", maxPods=5), user(1, "b"), user(2, "c")]

    variants = variants_of("shared", users, {"shared"})

    assert [(each.name, each.kubelet) for each in variants] == [("shared", {}), ("shared-a", {"maxPods": 5})]


def test_of_as_many_the_first_keeps_the_name() -> None:
    variants = variants_of("shared", [user(0, "a", maxPods=5), user(1, "b")], {"shared"})

    assert [each.name for each in variants] == ["shared", "shared-b"]


def test_a_name_that_is_taken_gets_a_suffix_that_stays_the_same() -> None:
    users = [user(0, "a", maxPods=5), user(1, "b")]

    first = variants_of("shared", users, {"shared", "shared-b"})
    second = variants_of("shared", users, {"shared", "shared-b"})

    assert first == second
    assert first[1].name.startswith("shared-b-")


def test_a_name_fits_into_a_label_value() -> None:
    long = "x" * 62

    variants = variants_of(long, [user(0, "a", maxPods=5), user(1, "b")], {long})

    assert len(variants[1].name) == 63
