# SPDX-License-Identifier: Apache-2.0
"""What a kubelet is told by its flags and its configuration, in one shape, whichever way it was told.

Reads as the kubelet reads: a flag that repeats adds to a map (labels) or replaces (everything else); a label of
Kubernetes' own domains that a kubelet may not set, a taint given twice and a number that is none make it refuse to
start (``BootError``), and a machine whose kubelet does not start never joins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karpenter.api.core import Taint
from karpenter.errors import KarpenterError

__all__ = ["BootError", "KubeletConfig", "read_config", "read_flags"]

# Labels of Kubernetes' domains that kubelets may set, beside those under the two prefixes.
_OWN_LABELS: Final = frozenset(
    f"{prefix}{name}"
    for prefix, names in (
        ("kubernetes.io/", ("hostname", "arch", "os")),
        ("beta.kubernetes.io/", ("arch", "os", "instance-type")),
        ("failure-domain.beta.kubernetes.io/", ("zone", "region")),
        ("topology.kubernetes.io/", ("zone", "region")),
        ("node.kubernetes.io/", ("instance-type",)),
    )
    for name in names
)
_OWN_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_TAINT: Final = re.compile(r"([^=:]+)(?:=([^=:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)")


class BootError(KarpenterError):
    """Why a machine does not join: what its user data says cannot be followed."""


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """A kubelet's settings as far as others notice them; None leaves them to the image.

    ``by_flag`` names the maps that were given by flag: such a map stands alone, while one in a configuration is
    merged over the image's own.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: Mapping[str, str] | None = None
    system_reserved: Mapping[str, str] | None = None
    eviction_hard: Mapping[str, str] | None = None
    by_flag: frozenset[str] = frozenset()


def read_flags(words: Sequence[str], base: KubeletConfig | None = None) -> KubeletConfig:
    """Reads the words of a kubelet's command line over what it is told otherwise.

    Raises:
        BootError: The kubelet would not start.
    """
    config = base or KubeletConfig()
    labels = dict(config.labels)
    for name, value in _pairs(words):
        if name == "node-labels":
            labels |= _map(value, "=", name)
        elif name == "register-with-taints":
            config = replace(config, taints=tuple(_taint(each) for each in _split(value)))
        elif name == "max-pods":
            config = replace(config, max_pods=_number(name, value))
        elif name == "pods-per-core":
            config = replace(config, pods_per_core=_number(name, value))
        elif name == "kube-reserved":
            config = replace(config, kube_reserved=_map(value, "=", name), by_flag=config.by_flag | {name})
        elif name == "system-reserved":
            config = replace(config, system_reserved=_map(value, "=", name))
        elif name == "eviction-hard":
            config = replace(config, eviction_hard=_map(value, "<", name), by_flag=config.by_flag | {name})
    return _checked(replace(config, labels=labels))


def read_config(config: Mapping[str, Any]) -> KubeletConfig:
    """Reads a KubeletConfiguration, as far as given.

    Raises:
        BootError: The kubelet would not start.
    """
    taints = config.get("registerWithTaints") or ()
    made = KubeletConfig(
        taints=tuple(
            Taint(key=each["key"], value=each.get("value") or "", effect=each["effect"]) for each in taints
        ),
        max_pods=_number("maxPods", config.get("maxPods")),
        pods_per_core=_number("podsPerCore", config.get("podsPerCore")),
        kube_reserved=config.get("kubeReserved"),
        system_reserved=config.get("systemReserved"),
        eviction_hard=config.get("evictionHard"),
    )
    return _checked(made)


def _pairs(words: Sequence[str]) -> Iterable[tuple[str, str]]:
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            continue
        name, is_joined, value = word[2:].partition("=")
        if not is_joined and left and not left[0].startswith("--"):
            value = left.pop(0)
        yield name, value


def _split(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _map(value: str, separator: str, flag: str) -> dict[str, str]:
    found = {}
    for each in _split(value):
        key, is_pair, inner = each.partition(separator)
        if not is_pair:
            raise BootError(f"--{flag}: {each!r} has no {separator!r}")
        found[key] = inner
    return found


def _taint(text: str) -> Taint:
    match = _TAINT.fullmatch(text)
    if match is None:
        raise BootError(f"--register-with-taints: {text!r} is not key=value:effect")
    return Taint(key=match[1], value=match[2] or "", effect=match[3])


def _number(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError) as wrong:
        raise BootError(f"{name}: {value!r} is not a number") from wrong


def _checked(config: KubeletConfig) -> KubeletConfig:
    for key in config.labels:
        domain = key.partition("/")[0] if "/" in key else ""
        if _is_under(domain, _RESERVED_DOMAINS) and not (
            _is_under(domain, _OWN_DOMAINS) or key in _OWN_LABELS
        ):
            raise BootError(f"--node-labels: a kubelet may not set the label {key!r}")
    seen = [(each.key, each.effect) for each in config.taints]
    for each in set(seen):
        if seen.count(each) > 1:
            raise BootError(f"duplicated taints with key {each[0]!r} and effect {each[1]!r}")
    return config


def _is_under(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
