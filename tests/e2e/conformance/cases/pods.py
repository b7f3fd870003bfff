# SPDX-License-Identifier: Apache-2.0
"""Pods: what is filled in, what is refused, placement, eviction, status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.conformance.cases.kinds import NAMESPACE
from tests.e2e.conformance.cases.manifests import container, pod
from tests.e2e.conformance.requests import MERGE, STRATEGIC, TABLE, Request

__all__ = ["requests"]

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def requests() -> Iterator[Request]:
    """Gives the requests."""
    yield from _good()
    yield from _bad()
    yield from _placed()
    yield from _evicted()


def _good() -> Iterator[Request]:
    cases: dict[str, dict[str, Any]] = {
        "latest": {"containers": [container(image="app")]},
        "digest": {"containers": [container(image="app@sha256:" + "0" * 64)]},
        "resources": {
            "containers": [
                container(
                    resources={
                        "requests": {"cpu": "1000m", "memory": "1024Mi"},
                        "limits": {"cpu": "1.0", "memory": "1Gi"},
                    }
                )
            ]
        },
        "limits-only": {
            "containers": [container(resources={"limits": {"cpu": "0.5", "nvidia.com/gpu": "1"}})]
        },
        "numbers": {"containers": [container(resources={"requests": {"cpu": 0.25, "memory": 1000000}})]},
        "probes": {
            "containers": [
                container(
                    livenessProbe={"httpGet": {"port": 80}},
                    readinessProbe={"exec": {"command": ["true"]}},
                    ports=[{"containerPort": 80, "name": "http"}],
                )
            ]
        },
        "volumes": {
            "volumes": [
                {"name": "e"},
                {"name": "c", "configMap": {"name": "x"}},
                {"name": "s", "secret": {"secretName": "x"}},
                {"name": "h", "hostPath": {"path": "/"}},
            ],
            "containers": [container(volumeMounts=[{"name": "e", "mountPath": "/e"}])],
        },
        "env": {
            "containers": [
                container(
                    env=[
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    ]
                )
            ]
        },
        "host-network": {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]},
        "tolerations": {
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 5,
                },
                {"operator": "Exists", "effect": "NoSchedule"},
            ]
        },
        "no-token": {"automountServiceAccountToken": False},
        "init": {
            "initContainers": [
                {"name": "i", "image": "i:1"},
                {"name": "side", "image": "i:1", "restartPolicy": "Always"},
            ]
        },
        "affinity": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                        ]
                    }
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {"matchLabels": {"a": "b"}},
                            "topologyKey": "kubernetes.io/hostname",
                        }
                    ]
                },
            }
        },
        "spread": {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                }
            ]
        },
        "priority": {"priorityClassName": "system-cluster-critical"},
        "gates": {"schedulingGates": [{"name": "conf/wait"}]},
        "node-name": {"nodeName": "n1"},
        "grace-zero": {"terminationGracePeriodSeconds": 0},
    }
    for name, spec in cases.items():
        yield Request(f"pod/{name}", "POST", _PODS, pod(f"good-{name}", **spec))
    yield Request("pod/table", "GET", f"{_PODS}?limit=500", accept=TABLE)
    yield Request("pod/generate", "POST", _PODS, {**pod(""), "metadata": {"generateName": "generated-"}})


def _bad() -> Iterator[Request]:
    cases: dict[str, dict[str, Any]] = {
        "no-containers": {"containers": []},
        "no-image": {"containers": [{"name": "a"}]},
        "bad-container-name": {"containers": [container(name="Bad_Name")]},
        "duplicate-containers": {"containers": [container(), container()]},
        "bad-restart": {"restartPolicy": "Sometimes"},
        "bad-pull": {"containers": [container(imagePullPolicy="Perhaps")]},
        "bad-dns": {"dnsPolicy": "Odd"},
        "negative-cpu": {"containers": [container(resources={"requests": {"cpu": "-1"}})]},
        "over-limit": {
            "containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]
        },
        "bad-quantity": {"containers": [container(resources={"requests": {"cpu": "lots"}})]},
        "bad-resource": {"containers": [container(resources={"requests": {"gpu": "1"}})]},
        "port-zero": {"containers": [container(ports=[{"containerPort": 0}])]},
        "port-high": {"containers": [container(ports=[{"containerPort": 99999}])]},
        "bad-protocol": {"containers": [container(ports=[{"containerPort": 1, "protocol": "QUIC"}])]},
        "duplicate-ports": {
            "containers": [
                container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}])
            ]
        },
        "mount-missing": {"containers": [container(volumeMounts=[{"name": "nope", "mountPath": "/x"}])]},
        "duplicate-volumes": {"volumes": [{"name": "a"}, {"name": "a"}]},
        "env-name": {"containers": [container(env=[{"value": "x"}])]},
        "negative-grace": {"terminationGracePeriodSeconds": -5},
        "negative-deadline": {"activeDeadlineSeconds": 0},
        "bad-toleration": {"tolerations": [{"key": "a", "operator": "Like"}]},
        "toleration-value": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "toleration-effect": {"tolerations": [{"key": "a", "effect": "Never"}]},
        "toleration-seconds": {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]},
        "bad-node-selector": {"nodeSelector": {"a b": "c"}},
        "affinity-no-values": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                    }
                }
            }
        },
        "affinity-operator": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
                        ]
                    }
                }
            }
        },
        "affinity-no-terms": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        },
        "affinity-topology": {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {}, "topologyKey": ""}
                    ]
                }
            }
        },
        "affinity-weight": {
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "podAffinityTerm": {"labelSelector": {}, "topologyKey": "a"}}
                    ]
                }
            }
        },
        "spread-skew": {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spread-when": {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Perhaps"}
            ]
        },
        "spread-key": {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "no-class": {"priorityClassName": "nope"},
        "no-account": {"serviceAccountName": "nope"},
        "own-priority": {"priority": 77},
        "probe-none": {"containers": [container(livenessProbe={})]},
        "probe-two": {
            "containers": [container(livenessProbe={"httpGet": {"port": 1}, "exec": {"command": ["a"]}})]
        },
        "containers-type": {"containers": {"name": "x"}},
        "image-type": {"containers": [container(image=5)]},
        "host-network-type": {"hostNetwork": "yes"},
    }
    for name, spec in cases.items():
        yield Request(f"pod/bad/{name}", "POST", _PODS, pod("bad", **spec))
    yield Request("pod/bad/spec-type", "POST", _PODS, {**pod("bad"), "spec": "x"})
    yield Request(
        "pod/bad/no-spec", "POST", _PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}}
    )
    yield Request("pod/bad/name-long", "POST", _PODS, pod("x" * 254))


def _placed() -> Iterator[Request]:
    def binding(name: str, node: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }

    yield Request(
        "bind/make", "POST", _PODS, {**pod("b"), "metadata": {"name": "b", "labels": {"app": "evict"}}}
    )
    other = binding("b", "n1")
    other["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    yield Request("bind/other-uid", "POST", f"{_PODS}/b/binding", other)
    yield Request("bind/bind", "POST", f"{_PODS}/b/binding", binding("b", "n1"))
    yield Request("bind/after", "GET", f"{_PODS}/b")
    yield Request("bind/again", "POST", f"{_PODS}/b/binding", binding("b", "n2"))
    yield Request(
        "bind/no-target",
        "POST",
        f"{_PODS}/b/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}},
    )
    yield Request("bind/missing", "POST", f"{_PODS}/none/binding", binding("none", "n1"))
    yield Request(
        "pod/update-image",
        "PATCH",
        f"{_PODS}/b",
        {"spec": {"containers": [{"name": "main", "image": "other:1"}]}},
        STRATEGIC,
    )
    yield Request(
        "pod/update-cpu",
        "PATCH",
        f"{_PODS}/b",
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
        STRATEGIC,
    )
    yield Request("pod/update-node", "PATCH", f"{_PODS}/b", {"spec": {"nodeName": "n9"}}, MERGE)
    yield Request(
        "pod/update-label", "PATCH", f"{_PODS}/b", {"metadata": {"labels": {"new": "label"}}}, MERGE
    )
    yield Request(
        "pod/update-toleration",
        "PATCH",
        f"{_PODS}/b",
        {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
        MERGE,
    )
    running = {
        "status": {
            "phase": "Running",
            "podIP": "192.0.2.9",
            "podIPs": [{"ip": "192.0.2.9"}],
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 1,
                    "image": "a",
                    "imageID": "b",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        }
    }
    yield Request("pod/status", "PATCH", f"{_PODS}/b/status", running, STRATEGIC)
    yield Request("pod/status-table", "GET", f"{_PODS}/b", accept=TABLE)
    yield Request(
        "pod/status-nominated",
        "PATCH",
        f"{_PODS}/good-latest/status",
        {"status": {"nominatedNodeName": "n5"}},
        MERGE,
    )
    yield Request("pod/by-node", "GET", f"{_PODS}?fieldSelector=spec.nodeName%3Dn1,status.phase%3DRunning")
    yield Request("pod/log-missing", "GET", f"{_PODS}/none/log")


def _evicted() -> Iterator[Request]:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "b", "namespace": NAMESPACE},
    }
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "evict"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "evict"}}},
    }
    yield Request("evict/budget", "POST", budgets, budget)
    yield Request("evict/unprocessed", "POST", f"{_PODS}/b/eviction", eviction)
    yield Request(
        "evict/budget-status",
        "PATCH",
        f"{budgets}/evict/status",
        {
            "status": {
                "observedGeneration": 1,
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            }
        },
        MERGE,
    )
    yield Request("evict/refused", "POST", f"{_PODS}/b/eviction", eviction)
    yield Request(
        "evict/missing", "POST", f"{_PODS}/none/eviction", {**eviction, "metadata": {"name": "none"}}
    )
    yield Request("evict/other-name", "POST", f"{_PODS}/b/eviction", {**eviction, "metadata": {"name": "c"}})
    yield Request("evict/second-budget", "POST", budgets, {**budget, "metadata": {"name": "evict-2"}})
    yield Request("evict/two-budgets", "POST", f"{_PODS}/b/eviction", eviction)
    yield Request("evict/second-gone", "DELETE", f"{budgets}/evict-2", compared=False)
    yield Request(
        "evict/budget-allows",
        "PATCH",
        f"{budgets}/evict/status",
        {"status": {"disruptionsAllowed": 1}},
        MERGE,
    )
    yield Request("evict/dry-run", "POST", f"{_PODS}/b/eviction?dryRun=All", eviction)
    yield Request("evict/allowed", "POST", f"{_PODS}/b/eviction", eviction)
    yield Request("evict/after", "GET", f"{_PODS}/b")
    yield Request("evict/spent", "GET", f"{budgets}/evict")
    yield Request(
        "evict/pending", "POST", f"{_PODS}/good-env/eviction", {**eviction, "metadata": {"name": "good-env"}}
    )
    yield Request("evict/pending-gone", "GET", f"{_PODS}/good-env")
