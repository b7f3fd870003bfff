# SPDX-License-Identifier: Apache-2.0
"""Karpenter as a workload of the sandbox's cluster: a Deployment whose pods are processes on the system node.

Its labels, container and variables are those of the chart, so what people type for an installation of theirs works:
``kubectl logs -l app.kubernetes.io/name=karpenter -c controller``, ``kubectl set env deployment/karpenter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karpenter.sandbox.stack.record import Options

__all__ = ["CONTAINER", "HEALTH_PORT", "IMAGE", "METRICS_PORT", "NAME", "controller_environ", "installation"]

NAME: Final = "karpenter"
CONTAINER: Final = "controller"
IMAGE: Final = "karpenter"
METRICS_PORT: Final = 8080
HEALTH_PORT: Final = 8081
_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}
# The account of the EC2 model.
_ACCOUNT: Final = "123456789012"
_REGISTRATION_S: Final = 900.0
_LEAST_REGISTRATION_S: Final = 10.0


def installation(options: Options) -> list[dict[str, Any]]:
    """Return the manifests of Karpenter for a sandbox that is to be like that."""
    namespace = options.controller_namespace
    metadata = {"name": NAME, "namespace": namespace, "labels": _LABELS}
    ports = [("http-metrics", METRICS_PORT), ("http", HEALTH_PORT)]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, **_role(options)}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": _LABELS,
                "ports": [{"name": "http-metrics", "port": METRICS_PORT, "targetPort": "http-metrics"}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": options.replicas,
                "selector": {"matchLabels": _LABELS},
                "template": {
                    "metadata": {"labels": _LABELS},
                    "spec": {
                        "serviceAccountName": NAME,
                        "priorityClassName": "system-cluster-critical",
                        "terminationGracePeriodSeconds": 30,
                        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                        "containers": [_container(options, ports)],
                    },
                },
            },
        },
    ]


def controller_environ(options: Options) -> dict[str, str]:
    """Return the settings of the controller by environment variable."""
    settings = {
        "cluster-name": options.cluster_name,
        # An account without an installation has no queue.
        "interruption-queue": "" if options.bare else options.cluster_name,
        "karpenter-service": NAME,
        "metrics-port": str(METRICS_PORT),
        "health-probe-port": str(HEALTH_PORT),
        "bind-address": "127.0.0.1",
        # A sandbox is small, and boards for Karpenter ask for them.
        "detailed-metrics": "nodes,pods",
        # Shorter, a busy machine would give up on nodes that are fine.
        "registration-timeout": _duration(max(_REGISTRATION_S / options.speed, _LEAST_REGISTRATION_S)),
        **options.settings,
    }
    return {flag.replace("-", "_").upper(): value for flag, value in settings.items()}


def _role(options: Options) -> Mapping[str, Any]:
    """Return the annotation by which a service account names its IAM role; a bare account has none."""
    if options.bare:
        return {}
    arn = f"arn:aws:iam::{_ACCOUNT}:role/KarpenterControllerRole-{options.cluster_name}"
    return {"annotations": {"eks.amazonaws.com/role-arn": arn}}


def _container(options: Options, ports: list[tuple[str, int]]) -> dict[str, Any]:
    fields = {
        "POD_NAME": "metadata.name",
        "SYSTEM_NAMESPACE": "metadata.namespace",
        "LEADER_ELECTION_NAMESPACE": "metadata.namespace",
    }
    return {
        "name": CONTAINER,
        "image": f"{IMAGE}:sandbox",
        # Another program in its place knows no commands of ours.
        "args": [] if options.controller_program else ["controller"],
        "env": [
            *({"name": name, "value": value} for name, value in controller_environ(options).items()),
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in fields.items()
            ),
        ],
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "readinessProbe": _probe("/readyz"),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
    }


def _probe(path: str) -> Mapping[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 2}


def _duration(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"
