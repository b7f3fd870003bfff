# SPDX-License-Identifier: Apache-2.0
"""Amounts against plain arithmetic, and a pod's requests against a slow restatement of the rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from karpenter.api.meta import Condition
from karpenter.model.resources import Resources, pod_requests, total

NAMES = ("cpu", "memory", "gpu", "hugepages-1Gi")

amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(-5, 5)).map(Resources)
quantities = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6).map(str))
asked = quantities.map(lambda requests: ResourceRequirements(requests=requests))
actual = st.none() | asked


@given(amounts, amounts, amounts)
def test_sums_obey_the_laws_of_arithmetic(one: Resources, two: Resources, three: Resources) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three) == total((one, two, three))
    assert (one + two) - two == one
    assert one.largest(two) == two.largest(one)
    assert all(one.largest(two)[name] == max(one[name], two[name]) for name in NAMES)


@given(amounts, amounts)
def test_fitting_is_a_matter_of_every_single_resource(wanted: Resources, room: Resources) -> None:
    fits = all(wanted[name] <= room[name] and room[name] >= 0 for name in NAMES)

    assert wanted.fits(room) is fits
    assert all(wanted.shortfall(room)[name] == max(0, wanted[name] - room[name]) for name in wanted)
    assert wanted.fits((room + wanted.shortfall(room)).floored().largest(wanted))


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    containers = tuple(
        Container(name=f"c{index}", resources=draw(asked)) for index in range(draw(st.integers(1, 3)))
    )
    inits = tuple(
        Container(
            name=f"i{index}", resources=draw(asked), restart_policy=draw(st.sampled_from([None, "Always"]))
        )
        for index in range(draw(st.integers(0, 4)))
    )
    seen = draw(st.lists(st.sampled_from((*containers, *inits)), unique_by=lambda each: each.name))
    statuses = tuple(
        ContainerStatus(name=each.name, resources=draw(actual), allocated_resources=draw(quantities))
        for each in seen
    )
    reason = draw(st.sampled_from(["", "Deferred", "Infeasible"]))
    return Pod(
        spec=PodSpec(
            containers=containers,
            init_containers=inits,
            overhead=draw(quantities),
            resources=draw(st.none() | asked),
        ),
        status=PodStatus(
            container_statuses=statuses,
            conditions=(Condition(type="PodResizePending", reason=reason),) if reason else (),
        ),
    )


def restated(pod: Pod, name: str) -> int:
    """Plays the pod's life through, moment by moment, for one resource; in the resource's own unit."""
    infeasible = any(condition.reason == "Infeasible" for condition in pod.status.conditions)

    def needs(container: Container, *, lasting: bool) -> int:
        asks = int(container.resources.requests.get(name, 0))
        for status in pod.status.container_statuses:
            if lasting and status.name == container.name and status.resources is not None:
                held = [status.resources.requests.get(name, 0), status.allocated_resources.get(name, 0)]
                return max(0 if infeasible else asks, *map(int, held))
        return asks

    moments = []
    sidecars = 0
    for init in pod.spec.init_containers:
        lasting = init.restart_policy == "Always"
        moments.append(sidecars + needs(init, lasting=lasting))
        sidecars += needs(init, lasting=True) if lasting else 0
    moments.append(sidecars + sum(needs(each, lasting=True) for each in pod.spec.containers))
    peak = max(moments)
    if pod.spec.resources is not None and name != "gpu":
        peak = int(pod.spec.resources.requests.get(name, peak))
    return peak + int(pod.spec.overhead.get(name, 0))


@given(pods())
def test_a_pod_asks_for_the_peak_of_its_life(pod: Pod) -> None:
    requests = pod_requests(pod)

    assert requests["pods"] == 1
    assert requests["cpu"] == 1000 * restated(pod, "cpu")
    assert all(requests[name] == restated(pod, name) for name in NAMES[1:])
