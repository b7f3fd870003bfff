# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems that both schedulers read: `python -m benchmarks.peers.problems SHAPE COUNT [SEED]`.

A problem is ``{"catalogue": FILE, "objects": [NodePool, DaemonSet, Pod, ...]}``; the catalogue is looked for
beside the problem file unless another is named. The same shape, count and seed give the same bytes, on every
machine and Python: only `Random.choice` and `Random.randrange` decide, and they are called in a fixed order.

=========  ===================================================================================================
inflate    equal pods of 1 GiB, four instance types to choose from
generic    small mixed pods, one pool, no constraints
diverse    a fifth each: plain, zone spread, host spread, zone affinity to itself, host anti-affinity
shapes     sizes that divide no instance type evenly
big        few pods, each a large part of a node
pools      three weighted pools (tainted; arm64 with a limit; general), two DaemonSets
=========  ===================================================================================================

catalogue.json, beside this file, has 1,137 EC2 types: labels, capacity and allocatable as an AL2023 node has
them, and offerings ``[zone, capacity type, $/h]``. On-demand prices are the public ones of us-east-1; spot
prices are made up (a stable 25 to 55 % of on-demand).
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

__all__ = ["SHAPES", "Object", "make_problem", "render_problem"]

Object = dict[str, Any]
Labels = Mapping[str, str]
Size = tuple[int, int]

CATALOGUE_FILE: Final = "catalogue.json"

_CPU_MILLI: Final = (100, 250, 500, 1000, 1500)
_MEMORY_MIB: Final = (100, 256, 512, 1024, 2048, 4096)
_LETTERS: Final = "abcdefg"

_ARCH: Final = "kubernetes.io/arch"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
_HOSTNAME: Final = "kubernetes.io/hostname"
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_OS: Final = "kubernetes.io/os"
_ZONE: Final = "topology.kubernetes.io/zone"


def make_problem(shape: str, count: int, seed: int = 1) -> Object:
    """Return a problem of ``count`` pending pods; the shape is one of `SHAPES`."""
    # Not a secret: the point of a seed is that everybody gets the same pods.
    random = Random(seed)  # noqa: S311
    return {"catalogue": CATALOGUE_FILE, "objects": SHAPES[shape](count, random)}


def render_problem(shape: str, count: int, seed: int = 1) -> str:
    """Return the problem as the JSON text that a problem file holds."""
    return json.dumps(make_problem(shape, count, seed))


def _inflate(count: int, _random: Random) -> list[Object]:
    types = _requirement(_INSTANCE_TYPE, "In", "c5.large", "m5.large", "r5.large", "m5.xlarge")
    pods = [_pod(i, (0, 1024), {"app": "inflate"}) for i in range(count)]
    return [_pool(requirements=[types]), *pods]


def _generic(count: int, random: Random) -> list[Object]:
    pods = [_pod(i, _small(random), _lettered(random)) for i in range(count)]
    return [_pool(requirements=_usual_types()), *pods]


def _diverse(count: int, random: Random) -> list[Object]:
    pods = [_diverse_pod(i, fifth=i * 5 // count, random=random) for i in range(count)]
    return [_pool(requirements=[*_usual_types(), _requirement(_ARCH, "In", "amd64")]), *pods]


def _diverse_pod(i: int, fifth: int, random: Random) -> Object:
    # Every pod draws the same numbers first, whether it needs them or not.
    size, own, others = _small(random), _lettered(random), _lettered(random)
    if fifth == 0:
        return _pod(i, size, own)
    if fifth == 1:
        return _pod(i, size, own, topologySpreadConstraints=_spread(_ZONE, others))
    if fifth == 2:
        return _pod(i, size, own, topologySpreadConstraints=_spread(_HOSTNAME, others))
    if fifth == 3:
        kin = {"my-affinity": random.choice(_LETTERS)}
        return _pod(i, size, kin, affinity={"podAffinity": _required_term(_ZONE, kin)})
    web = {"app": "nginx"}
    return _pod(i, size, web, affinity={"podAntiAffinity": _required_term(_HOSTNAME, web)})


def _shapes(count: int, random: Random) -> list[Object]:
    sizes = ((1100, 2300), (2900, 5000), (1700, 13000), (3700, 3000), (700, 900), (250, 6100))
    pods = [_pod(i, random.choice(sizes)) for i in range(count)]
    return [_pool(requirements=[*_usual_types(), _requirement(_ARCH, "In", "amd64")]), *pods]


def _big(count: int, random: Random) -> list[Object]:
    sizes = ((15000, 30000), (7000, 60000), (3000, 6000), (31000, 20000))
    pods = [_pod(i, random.choice(sizes)) for i in range(count)]
    return [_pool(requirements=_usual_types()), *pods]


def _pools(count: int, random: Random) -> list[Object]:
    either = ("spot", "on-demand")
    return [
        _pool(
            "data",
            requirements=[_requirement(_CATEGORY, "In", "r", "m")],
            taints=[{"key": "team", "value": "data", "effect": "NoSchedule"}],
            weight=50,
        ),
        _pool("arm", either, [_requirement(_ARCH, "In", "arm64")], weight=30, limits={"cpu": "400"}),
        _pool("general", either),
        _daemon("logs", (100, 200)),
        _daemon("cni", (50, 120)),
        *(_pools_pod(i, random) for i in range(count)),
    ]


def _pools_pod(i: int, random: Random) -> Object:
    size = _small(random)
    kind = random.randrange(4)
    if kind == 0:
        toleration = {"key": "team", "operator": "Equal", "value": "data", "effect": "NoSchedule"}
        return _pod(i, size, tolerations=[toleration])
    if kind == 1:
        return _pod(i, size, nodeSelector={_ARCH: "arm64"})
    if kind == 2:
        return _pod(i, size, nodeSelector={_CAPACITY_TYPE: "on-demand"})
    return _pod(i, size, {"app": "web"}, topologySpreadConstraints=_spread(_ZONE, {"app": "web"}))


SHAPES: Final[Mapping[str, Callable[[int, Random], list[Object]]]] = {
    "inflate": _inflate,
    "generic": _generic,
    "diverse": _diverse,
    "shapes": _shapes,
    "big": _big,
    "pools": _pools,
}


def _small(random: Random) -> Size:
    """Draw the cpu (thousandths of a core) and the memory (MiB) of a small pod."""
    return random.choice(_CPU_MILLI), random.choice(_MEMORY_MIB)


def _lettered(random: Random) -> Labels:
    return {"my-label": random.choice(_LETTERS)}


def _usual_types() -> list[Object]:
    return [_requirement(_CATEGORY, "In", "c", "m", "r"), _requirement(_GENERATION, "Gt", "2")]


def _requirement(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def _pool(
    name: str = "default",
    capacity_types: Iterable[str] = ("on-demand",),
    requirements: Sequence[Object] = (),
    taints: Sequence[Object] = (),
    **spec: Any,
) -> Object:
    template = {
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "taints": list(taints),
            "requirements": [
                _requirement(_CAPACITY_TYPE, "In", *capacity_types),
                _requirement(_OS, "In", "linux"),
                *requirements,
            ],
            "expireAfter": "720h",
        }
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "uid": f"pool-{name}"},
        "spec": {"template": template, **spec},
    }


def _pod(i: int, size: Size, labels: Labels | None = None, **spec: Any) -> Object:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{i}",
            "namespace": "default",
            "uid": str(uuid.UUID(int=i + 1)),
            "labels": labels or {},
        },
        "spec": {"containers": [_container(size)], **spec},
        "status": {"phase": "Pending", "conditions": [unschedulable]},
    }


def _daemon(name: str, size: Size) -> Object:
    template = {
        "metadata": {"labels": {"name": name}},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [_container(size)]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": f"ds-{name}"},
        "spec": {"selector": {"matchLabels": {"name": name}}, "template": template},
    }


def _container(size: Size) -> Object:
    cpu_milli, memory_mib = size
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    return {"name": "main", "image": "pause", "resources": {"requests": requests}}


def _spread(key: str, labels: Labels) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def _required_term(key: str, labels: Labels) -> Object:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def main(arguments: Sequence[str]) -> int:
    """Print one problem to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.problems", description="Print a scheduling problem as JSON."
    )
    parser.add_argument("shape", choices=SHAPES, metavar="SHAPE", help=f"one of {', '.join(SHAPES)}")
    parser.add_argument("count", type=int, metavar="COUNT", help="how many pods")
    parser.add_argument("seed", type=int, nargs="?", default=1, metavar="SEED", help="default: 1")
    options = parser.parse_args(arguments)
    if options.count < 0:
        parser.error(f"COUNT is {options.count}: no problem has fewer than 0 pods")
    # No newline at the end: the bytes are part of the promise.
    sys.stdout.write(render_problem(options.shape, options.count, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
