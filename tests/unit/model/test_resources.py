# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from karpenter.api.base import RawQuantity
from karpenter.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from karpenter.api.meta import Condition
from karpenter.kit.quantity import QuantityError
from karpenter.model.resources import (
    NO_RESOURCES,
    Resources,
    pod_limits,
    pod_requests,
    total,
    with_default_requests,
)

GI = 2**30


def asks(limits: dict[str, RawQuantity] | None = None, **requests: RawQuantity) -> ResourceRequirements:
    return ResourceRequirements(requests=requests, limits=limits or {})


def container(name: str = "c", *, sidecar: bool = False, **requests: RawQuantity) -> Container:
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests),
        restart_policy="Always" if sidecar else None,
    )


def pod(*containers: Container, init: tuple[Container, ...] = (), **fields: Any) -> Pod:
    status = fields.pop("status", PodStatus())
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **fields), status=status)


class TestAmounts:
    def test_cpu_is_counted_in_thousandths_and_the_rest_in_units_rounded_up(self) -> None:
        amounts = Resources.parse(
            {"cpu": "1.5", "memory": "1Gi", "nvidia.com/gpu": 2, "pods": "110", "x": "100m"}
        )

        assert dict(amounts) == {"cpu": 1500, "memory": GI, "nvidia.com/gpu": 2, "pods": 110, "x": 1}

    def test_a_bad_quantity_is_refused_by_the_name_of_its_resource(self) -> None:
        with pytest.raises(QuantityError, match=r'^memory: "1gb" is not a quantity') as caught:
            Resources.parse({"memory": "1gb"})

        assert caught.value.hint

    def test_one_bad_quantity_does_not_hide_the_others_that_were_reported(self) -> None:
        assert Resources.readable({"cpu": "2", "memory": "1e1.5"}) == Resources.parse({"cpu": "2"})

    def test_zero_and_missing_are_the_same(self) -> None:
        amounts = Resources({"memory": 5, "cpu": 0})

        assert amounts == Resources({"memory": 5})
        assert hash(amounts) == hash(Resources({"memory": 5})) == hash(amounts)
        assert amounts["cpu"] == 0
        assert "cpu" not in amounts
        assert list(amounts) == ["memory"]
        assert len(amounts) == 1
        assert list(amounts.values()) == [5]

    def test_they_are_values_that_survive_pickling(self) -> None:
        amounts = Resources({"memory": 5, "cpu": 1})

        assert pickle.loads(pickle.dumps(amounts)) == amounts  # noqa: S301 - our own bytes
        assert amounts != {"memory": 5, "cpu": 1}
        assert repr(amounts) == "Resources({'cpu': 1, 'memory': 5})"

    def test_sums_and_differences_are_exact_and_may_be_negative(self) -> None:
        one, other = Resources({"cpu": 3, "memory": 1}), Resources({"cpu": 5, "pods": 1})

        assert one + other == Resources({"cpu": 8, "memory": 1, "pods": 1})
        assert one - other == Resources({"cpu": -2, "memory": 1, "pods": -1})
        assert (one - other).floored() == Resources({"memory": 1})
        assert one.largest(other) == Resources({"cpu": 5, "memory": 1, "pods": 1})
        assert total([one, other, one]) == Resources({"cpu": 11, "memory": 2, "pods": 1})

    @pytest.mark.parametrize(
        ("room", "fits", "short"),
        [
            ({"cpu": 4, "memory": 2}, True, {}),
            ({"cpu": 3, "memory": 2, "pods": 9}, False, {"cpu": 1}),
            ({"cpu": 4}, False, {"memory": 2}),
            ({"cpu": 4, "memory": 2, "pods": -1}, False, {}),
        ],
    )
    def test_what_fits_has_room_for_all_on_a_node_that_is_not_overdrawn(
        self, room: dict[str, int], *, fits: bool, short: dict[str, int]
    ) -> None:
        wanted = Resources({"cpu": 4, "memory": 2})

        assert wanted.fits(Resources(room)) is fits
        assert wanted.fits(room) is fits
        assert wanted.shortfall(room) == Resources(short)

    def test_they_print_as_kubernetes_does(self) -> None:
        amounts = Resources(
            {"cpu": 1500, "memory": 2 * GI, "pods": 3, "hugepages-2Mi": 2**22, "ephemeral-storage": 10**9}
        )

        assert (
            str(amounts) == "cpu 1500m, ephemeral-storage 1000000000, hugepages-2Mi 4Mi, memory 2Gi, pods 3"
        )
        assert Resources.parse(amounts.to_quantities()) == amounts
        assert str(NO_RESOURCES) == "nothing"


class TestPodRequests:
    def test_a_pod_without_requests_takes_one_place(self) -> None:
        assert pod_requests(pod(container())) == Resources({"pods": 1})

    def test_containers_add_up(self) -> None:
        both = pod(container("a", cpu="100m", memory="1Gi"), container("b", cpu="1"))

        assert pod_requests(both) == Resources({"cpu": 1100, "memory": GI, "pods": 1})

    def test_the_largest_init_container_counts_if_it_is_larger(self) -> None:
        starting = pod(
            container(cpu="1", memory="1Gi"), init=(container("i", cpu="3"), container("j", memory="500Mi"))
        )

        assert pod_requests(starting) == Resources({"cpu": 3000, "memory": GI, "pods": 1})

    def test_a_sidecar_counts_with_the_containers_and_with_init_containers_after_it(self) -> None:
        before = pod(
            container(cpu="1"), init=(container("i", cpu="3"), container("s", sidecar=True, cpu="1"))
        )
        after = pod(container(cpu="1"), init=(container("s", sidecar=True, cpu="1"), container("i", cpu="3")))

        assert pod_requests(before)["cpu"] == 3000
        assert pod_requests(after)["cpu"] == 4000

    def test_the_pods_own_resources_override_the_sum_where_they_may(self) -> None:
        own = pod(
            container(cpu="1", memory="1Gi", gpu="1"),
            resources=asks(cpu="3", gpu="9"),
            overhead={"memory": "1Gi"},
        )

        assert pod_requests(own) == Resources({"cpu": 3000, "memory": 2 * GI, "gpu": 1, "pods": 1})

    def test_huge_pages_can_be_asked_for_by_the_pod(self) -> None:
        own = pod(container(), resources=ResourceRequirements(requests={"hugepages-2Mi": "4Mi"}))

        assert pod_requests(own)["hugepages-2Mi"] == 2**22

    def test_during_a_resize_the_larger_of_old_and_new_counts(self) -> None:
        given = ContainerStatus(
            name="c", resources=asks(cpu="3"), allocated_resources={"cpu": "2", "memory": "1Gi"}
        )
        shrinking = pod(container(cpu="1"), status=PodStatus(container_statuses=(given,)))

        assert pod_requests(shrinking) == Resources({"cpu": 3000, "memory": GI, "pods": 1})

    @pytest.mark.parametrize(
        "status",
        [
            {"conditions": (Condition(type="PodResizePending", status="True", reason="Infeasible"),)},
            {"resize": "Infeasible"},
        ],
    )
    def test_a_resize_that_can_never_happen_does_not_count(self, status: dict[str, Any]) -> None:
        given = ContainerStatus(name="c", resources=asks(cpu="1"), allocated_resources={"cpu": "2"})
        growing = pod(container(cpu="8"), status=PodStatus(container_statuses=(given,), **status))

        assert pod_requests(growing)["cpu"] == 2000

    def test_a_resize_that_is_only_put_off_counts(self) -> None:
        given = ContainerStatus(name="c", resources=asks(cpu="1"))
        deferred = Condition(type="PodResizePending", status="True", reason="Deferred")
        growing = pod(
            container(cpu="8"), status=PodStatus(container_statuses=(given,), conditions=(deferred,))
        )

        assert pod_requests(growing)["cpu"] == 8000

    def test_status_counts_for_sidecars_but_not_for_other_init_containers(self) -> None:
        statuses = tuple(ContainerStatus(name=name, resources=asks(cpu="5")) for name in "si")
        resized = pod(
            container(cpu="1"),
            init=(container("s", sidecar=True, cpu="1"), container("i", cpu="2")),
            status=PodStatus(init_container_statuses=statuses),
        )

        assert pod_requests(resized)["cpu"] == 7000

    def test_a_status_without_resources_says_nothing(self) -> None:
        given = ContainerStatus(name="c", allocated_resources={"cpu": "9"})

        assert (
            pod_requests(pod(container(cpu="1"), status=PodStatus(container_statuses=(given,))))["cpu"]
            == 1000
        )


class TestPodLimits:
    def test_limits_follow_the_same_rules_and_overhead_counts_only_where_there_is_a_limit(self) -> None:
        limited = Container(name="c", resources=asks(limits={"cpu": "1", "gpu": "0"}))
        starting = Container(name="i", resources=asks(limits={"cpu": "4"}))
        both = pod(
            limited,
            init=(starting,),
            overhead={"cpu": "1", "memory": "1Gi", "gpu": "1"},
            resources=asks(limits={"memory": "2Gi"}),
        )

        assert pod_limits(both) == Resources({"cpu": 5000, "memory": 3 * GI, "pods": 1})

    def test_a_pod_without_limits_has_only_its_place(self) -> None:
        assert pod_limits(pod(container(cpu="1"), overhead={"cpu": "1"})) == Resources({"pods": 1})


class TestDefaultRequests:
    def test_limits_become_requests_where_none_is_stated(self) -> None:
        template = PodSpec(
            containers=(Container(name="c", resources=asks(limits={"cpu": "2", "memory": "1Gi"}, cpu="0")),),
            init_containers=(Container(name="i", resources=asks(limits={"memory": "3Gi"})),),
        )

        admitted = pod_requests(Pod(spec=with_default_requests(template)))

        assert admitted == Resources({"memory": 3 * GI, "pods": 1})

    def test_without_limits_nothing_changes(self) -> None:
        template = PodSpec(containers=(container(cpu="1"),))

        assert with_default_requests(template) == template

    def test_the_pods_limit_is_requested_where_no_container_asks(self) -> None:
        template = PodSpec(
            containers=(Container(name="c", resources=asks(cpu="1")),),
            resources=asks(limits={"cpu": "4", "memory": "2Gi", "gpu": "1"}),
        )

        admitted = pod_requests(Pod(spec=with_default_requests(template)))

        assert admitted == Resources({"cpu": 1000, "memory": 2 * GI, "pods": 1})

    def test_the_pods_limit_of_huge_pages_is_requested_in_any_case(self) -> None:
        pages = ResourceRequirements(requests={"hugepages-2Mi": "2Mi"})
        template = PodSpec(
            containers=(Container(name="c", resources=pages),),
            resources=ResourceRequirements(limits={"hugepages-2Mi": "8Mi"}),
        )

        assert pod_requests(Pod(spec=with_default_requests(template)))["hugepages-2Mi"] == 2**23

    def test_what_the_pod_itself_requests_stays(self) -> None:
        template = PodSpec(containers=(container(),), resources=asks(limits={"cpu": "4"}, cpu="2"))

        assert pod_requests(Pod(spec=with_default_requests(template)))["cpu"] == 2000


def vectors() -> list[Any]:
    """Rows of a pod, and the requests and limits that Karpenter 1.14.1 computes for it, zeros left out."""
    found: list[Any] = json.loads((Path(__file__).parent / "podresource_vectors.json").read_text())
    return found


@pytest.mark.parametrize("row", vectors())
def test_requests_and_limits_are_those_of_karpenter(row: Any) -> None:
    raw, requests, limits = row

    decoded = msgspec.convert(raw, Pod)

    assert dict(pod_requests(decoded)) == requests
    assert dict(pod_limits(decoded)) == limits
