# SPDX-License-Identifier: Apache-2.0
"""What a new sandbox is given: our definitions, a default StorageClass, on request a NodePool and EKS' add-ons."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Final

import yaml

__all__ = ["default_pool", "definitions", "eks_addons", "storage_class"]

# The tenth address of the services of an IPv6 cluster, where EKS has DNS.
_IPV6_DNS: Final = "fd30:1c53:5f8a::a"


@cache
def definitions() -> tuple[dict[str, Any], ...]:
    """Gives the CustomResourceDefinitions of all our kinds."""
    folder = files("karpenter.api.crds")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".yaml"))
    texts = (folder.joinpath(name).read_text("utf-8") for name in names)
    return tuple(document for text in texts for document in _documents(text))


def default_pool(cluster_name: str = "sandbox") -> list[dict[str, Any]]:
    """Return a NodePool and its EC2NodeClass, both ``default``, that work in the account of a cluster as it is."""
    text = files("karpenter.sandbox.stack").joinpath("default-pool.yaml").read_text("utf-8")
    return _documents(text.replace("CLUSTER_NAME", cluster_name))


def eks_addons(ip_family: str = "ipv4") -> list[dict[str, Any]]:
    """Return what every cluster on EKS has in kube-system, with its requests."""
    found = _documents(files("karpenter.sandbox.stack").joinpath("eks-addons.yaml").read_text("utf-8"))
    for each in found:
        if ip_family == "ipv6" and each["kind"] == "Service":
            each["spec"] |= {"clusterIP": _IPV6_DNS, "ipFamilies": ["IPv6"]}
    return found


def storage_class() -> dict[str, Any]:
    """Return the default StorageClass, as people give one to a cluster on EKS: gp3 volumes in the zone of their pod."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def _documents(text: str) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(text, Loader=loader) if each]
