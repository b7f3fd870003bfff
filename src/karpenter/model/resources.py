# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources as exact integers, and what a pod asks of the node it runs on.

A ``Resources`` maps names to whole amounts: cpu in thousandths of a core, everything else (memory, storage
and huge pages in bytes, pods, devices) in whole units. A fraction of a unit is rounded up, as Kubernetes'
scheduler does. What is missing is zero, and zeros are left out, so equal demands are equal values. That makes
it wrong for the limits of a NodePool, where missing means unlimited: those stay plain mappings.

What a pod asks for follows Kubernetes: the containers and sidecars together, or what an init container needs
beside the sidecars started before it if that is more; the pod's own ``resources`` override the sum; overhead
comes on top; while a resize is under way the larger of old and new counts. Nothing is refused but a quantity
that cannot be read (``QuantityError``).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Final

from msgspec.structs import replace

from karpenter.api.base import RawQuantity
from karpenter.api.core import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from karpenter.kit.quantity import Format, Quantity, QuantityError, parse_milli, parse_value

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "NO_RESOURCES",
    "PODS",
    "Resources",
    "is_sidecar",
    "pod_limits",
    "pod_requests",
    "total",
    "with_default_requests",
]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_HUGE_PAGES: Final = "hugepages-"


class Resources(Mapping[str, int]):
    """Amounts by resource name, in the order of the names; immutable and hashable.

    Amounts may be negative: what is left of a node that is asked for too much.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts = {name: amount for name, amount in sorted(dict(amounts).items()) if amount}
        self._hash: int | None = None

    @classmethod
    def parse(cls, quantities: Mapping[str, RawQuantity]) -> Resources:
        """Reads the quantities of an API object.

        Raises:
            QuantityError: One of them is no quantity; the message names the resource.
        """
        return cls((name, _parse(name, raw)) for name, raw in quantities.items())

    @classmethod
    def readable(cls, quantities: Mapping[str, RawQuantity]) -> Resources:
        """Return the quantities that can be read: for sizes that others report, where one must not hide the rest."""
        found = {}
        for name, raw in quantities.items():
            try:
                found[name] = _parse(name, raw)
            except QuantityError:
                continue
        return cls(found)

    def __getitem__(self, name: str) -> int:
        """Gives the amount; zero where there is none."""
        return self._amounts.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)

    def items(self) -> ItemsView[str, int]:
        """Gives names and amounts, in the order of the names."""
        return self._amounts.items()

    def values(self) -> ValuesView[int]:
        """Gives the amounts, in the order of the names."""
        return self._amounts.values()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        return self._amounts == other._amounts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[Resources], tuple[dict[str, int]]]:
        # Texts hash differently in another process, so the remembered hash must not travel.
        return Resources, (self._amounts,)

    def __add__(self, other: Resources) -> Resources:
        return total((self, other))

    def __sub__(self, other: Resources) -> Resources:
        left = dict(self._amounts)
        for name, amount in other._amounts.items():
            left[name] = left.get(name, 0) - amount
        return Resources(left)

    def vector(self, names: Iterable[str]) -> tuple[int, ...]:
        """Gives the amounts of some resources, in the order asked for."""
        amounts = self._amounts
        return tuple([amounts.get(name, 0) for name in names])

    def largest(self, other: Resources) -> Resources:
        """Gives for each resource the larger of both amounts."""
        return Resources(_largest(self._amounts, other._amounts))

    def floored(self) -> Resources:
        """Gives the same amounts, with zero for what is negative."""
        return Resources((name, amount) for name, amount in self._amounts.items() if amount > 0)

    def fits(self, room: Mapping[str, int]) -> bool:
        """Tells whether there is room for all of it; where any room is negative, nothing fits any more."""
        return all(amount <= room.get(name, 0) for name, amount in self._amounts.items()) and all(
            amount >= 0 for amount in room.values()
        )

    def shortfall(self, room: Mapping[str, int]) -> Resources:
        """Gives how much more room would be needed, for each resource that is short."""
        return Resources(
            (name, amount - room.get(name, 0)) for name, amount in self._amounts.items()
        ).floored()

    def to_quantities(self) -> dict[str, str]:
        """Writes the amounts as Kubernetes prints them: "1500m" of cpu, "2Gi" of memory."""
        return {name: _quantity(name, amount).canonical() for name, amount in self._amounts.items()}

    def __str__(self) -> str:
        return ", ".join(f"{name} {quantity}" for name, quantity in self.to_quantities().items()) or "nothing"

    def __repr__(self) -> str:
        return f"Resources({self._amounts!r})"


NO_RESOURCES: Final = Resources()


def total(parts: Iterable[Resources]) -> Resources:
    """Gives the sum of any number of amounts."""
    summed: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, 0) + amount
    return Resources(summed)


def pod_requests(pod: Pod) -> Resources:
    """Gives what a pod takes of its node, the one place among ``pods`` included.

    Raises:
        QuantityError: One of the pod's quantities cannot be read.
    """
    requests = _container_requests(pod)
    if pod.spec.resources is not None:
        requests |= _pod_level(pod.spec.resources.requests)
    _add(requests, _parse_all(pod.spec.overhead))
    requests[PODS] = 1
    return Resources(requests)


def pod_limits(pod: Pod) -> Resources:
    """Gives the most that a pod may use, as far as it is limited; overhead counts where there is a limit.

    Raises:
        QuantityError: One of the pod's quantities cannot be read.
    """
    spec = pod.spec
    limits = _lifetime_peak(
        [_parse_all(container.resources.limits) for container in spec.containers],
        [(is_sidecar(init), _parse_all(init.resources.limits)) for init in spec.init_containers],
    )
    if spec.resources is not None:
        limits |= _pod_level(spec.resources.limits)
    overhead = _parse_all(spec.overhead)
    limits = {name: amount + overhead.get(name, 0) for name, amount in limits.items() if amount}
    limits[PODS] = 1
    return Resources(limits)


def with_default_requests(spec: PodSpec) -> PodSpec:
    """Gives the spec as the API server stores it in a pod: where only a limit is set, it is requested too.

    Pods had this done on admission, the templates of DaemonSets had not.
    """
    containers = tuple(map(_with_requests, spec.containers))
    init_containers = tuple(map(_with_requests, spec.init_containers))
    if spec.resources is None:
        return replace(spec, containers=containers, init_containers=init_containers)
    requested_below = {
        name for container in (*containers, *init_containers) for name in container.resources.requests
    }
    defaults = {
        name: limit
        for name, limit in spec.resources.limits.items()
        # What containers ask for comes before the pod's limit, but huge pages cannot be overcommitted.
        if _is_pod_level(name) and (name not in requested_below or name.startswith(_HUGE_PAGES))
    }
    own = replace(spec.resources, requests={**defaults, **spec.resources.requests})
    return replace(spec, containers=containers, init_containers=init_containers, resources=own)


def is_sidecar(init_container: Container) -> bool:
    """Tells whether an init container stays for the pod's whole life."""
    return init_container.restart_policy == "Always"


def _container_requests(pod: Pod) -> dict[str, int]:
    spec, status = pod.spec, pod.status
    given = {state.name: state for state in (*status.container_statuses, *status.init_container_statuses)}
    if not given:
        return _lifetime_peak(
            [_parse_all(container.resources.requests) for container in spec.containers],
            [(is_sidecar(init), _parse_all(init.resources.requests)) for init in spec.init_containers],
        )
    infeasible = _resize_is_infeasible(pod)

    def held(container: Container) -> dict[str, int]:
        return _held(container.resources, given.get(container.name), infeasible=infeasible)

    return _lifetime_peak(
        [held(container) for container in spec.containers],
        [
            (True, held(init)) if is_sidecar(init) else (False, _parse_all(init.resources.requests))
            for init in spec.init_containers
        ],
    )


def _lifetime_peak(
    containers: list[dict[str, int]], inits: list[tuple[bool, dict[str, int]]]
) -> dict[str, int]:
    """Gives the most that is in use at any time, for each resource.

    Either all containers and sidecars run, or one init container does beside the sidecars before it.
    """
    running: dict[str, int] = {}
    for amounts in containers:
        _add(running, amounts)
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for stays, amounts in inits:
        if stays:
            _add(running, amounts)
            _add(sidecars, amounts)
        else:
            beside = dict(sidecars)
            _add(beside, amounts)
            starting = _largest(starting, beside)
    # The sidecars alone never outweigh the sidecars with the containers, so they need no turn of their own.
    return _largest(running, starting) if starting else running


def _held(asked: ResourceRequirements, status: ContainerStatus | None, *, infeasible: bool) -> dict[str, int]:
    """Gives what a container has or will get; a resize that the node can never grant does not count."""
    requests = _parse_all(asked.requests)
    if status is None or status.resources is None:
        return requests
    actual = _largest(_parse_all(status.resources.requests), _parse_all(status.allocated_resources))
    return actual if infeasible else _largest(requests, actual)


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    # Before 1.33 the state of a resize was a field of its own.
    return pod.status.resize == "Infeasible" if pending is None else pending.reason == "Infeasible"


def _with_requests(container: Container) -> Container:
    limits, requests = container.resources.limits, container.resources.requests
    if not limits:
        return container
    return replace(container, resources=replace(container.resources, requests={**limits, **requests}))


def _pod_level(quantities: Mapping[str, RawQuantity]) -> dict[str, int]:
    return {name: _parse(name, raw) for name, raw in quantities.items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)


def _parse_all(quantities: Mapping[str, RawQuantity]) -> dict[str, int]:
    return {name: _parse(name, raw) for name, raw in quantities.items()}


def _parse(name: str, raw: RawQuantity) -> int:
    try:
        return parse_milli(raw) if name == CPU else parse_value(raw)
    except QuantityError as error:
        raise QuantityError(f"{name}: {error.message}", hint=error.hint) from error


def _quantity(name: str, amount: int) -> Quantity:
    if name == CPU:
        return Quantity.from_milli(amount)
    in_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(_HUGE_PAGES)
    return Quantity.from_value(amount, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI)


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _largest(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}
