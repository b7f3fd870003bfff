# SPDX-License-Identifier: Apache-2.0
"""Random manifests that their own version takes and that v1 can express."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from karpenter.api.legacy import RawObject

NAMES = st.sampled_from(["default", "team1", "batch", "gpu"])
_WORDS = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True)
_KEYS = st.builds("{}.example.com/{}".format, _WORDS, _WORDS)
_MAPS = st.dictionaries(_KEYS, _WORDS, max_size=3)
_QUANTITIES = st.one_of(st.integers(1, 10_000), st.sampled_from(["100m", "1.5", "2Gi", "1e3", "500M"]))
_DURATIONS = st.one_of(
    st.just("Never"), st.builds("{}{}".format, st.integers(0, 10_000), st.sampled_from("smh"))
)
_LABELS = st.one_of(
    st.sampled_from(
        [
            "karpenter.k8s.aws/instance-category",
            "karpenter.k8s.aws/instance-cpu",
            "karpenter.sh/capacity-type",
            "kubernetes.io/arch",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
        ]
    ),
    _KEYS,
)
_TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": _KEYS, "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])},
        optional={"value": _WORDS},
    ),
    max_size=2,
)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[RawObject]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def requirements(draw: st.DrawFn) -> RawObject:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    requirement: RawObject = {"key": draw(_LABELS), "operator": operator}
    if operator in {"In", "NotIn"}:
        requirement["values"] = draw(st.lists(_WORDS, min_size=1, max_size=3, unique=True))
    elif operator in {"Gt", "Lt"}:
        requirement["values"] = [str(draw(st.integers(0, 500)))]
    return requirement


_REQUIREMENTS = st.lists(requirements(), max_size=4)
_KUBELETS = _optional(
    clusterDNS=st.just(["10.0.0.10"]),
    maxPods=st.integers(0, 250),
    podsPerCore=st.integers(0, 20),
    systemReserved=st.dictionaries(st.sampled_from(["cpu", "memory", "pid"]), st.just("100m"), max_size=2),
    evictionHard=st.just({"memory.available": "5%"}),
    imageGCHighThresholdPercent=st.just(80),
    imageGCLowThresholdPercent=st.just(60),
    cpuCFSQuota=st.booleans(),
)
_DISKS: st.SearchStrategy[list[RawObject]] = st.lists(
    st.fixed_dictionaries(
        {
            "deviceName": st.just("/dev/xvda"),
            "ebs": st.fixed_dictionaries(
                {"volumeSize": st.sampled_from(["30Gi", "20G", "1Ti"])},
                optional={
                    "encrypted": st.booleans(),
                    "volumeType": st.just("gp3"),
                    "iops": st.integers(3000, 9000),
                },
            ),
        }
    ),
    max_size=2,
)
_OLD_SIZES = st.sampled_from(["30Gi", "2048Mi", "0.5Ti", 32212254720])
_LISTS = st.lists(_WORDS, min_size=1, max_size=3, unique=True).map(",".join)
_TAG_SELECTORS = st.dictionaries(_KEYS, st.one_of(st.just("*"), _LISTS), min_size=1, max_size=3)
_OPTIONS = _optional(
    httpEndpoint=st.sampled_from(["enabled", "disabled"]),
    httpTokens=st.sampled_from(["required", "optional"]),
    httpPutResponseHopLimit=st.integers(1, 64),
)
_FAMILIES = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"]


def _selectors(prefix: str) -> st.SearchStrategy[dict[str, str]]:
    ids = st.lists(st.from_regex(rf"{prefix}-[0-9a-f]{{4}}", fullmatch=True), min_size=1, max_size=4)
    return st.one_of(_TAG_SELECTORS, st.builds(lambda many: {"aws-ids": ", ".join(many)}, ids))


def _metadata(name: str) -> st.SearchStrategy[RawObject]:
    return st.fixed_dictionaries(
        {"name": st.just(name)},
        optional={"labels": _MAPS, "annotations": _MAPS, "uid": _WORDS, "resourceVersion": st.just("1")},
    )


@st.composite
def provisioners(draw: st.DrawFn, name: str) -> RawObject:
    spec = draw(
        _optional(
            annotations=_MAPS,
            labels=_MAPS,
            taints=_TAINTS,
            requirements=_REQUIREMENTS,
            kubeletConfiguration=_KUBELETS,
            limits=st.fixed_dictionaries(
                {"resources": st.dictionaries(st.sampled_from(["cpu", "memory"]), _QUANTITIES)}
            ),
            weight=st.integers(1, 100),
            ttlSecondsUntilExpired=st.integers(0, 10**7),
        )
    )
    how: RawObject = draw(
        st.sampled_from([{}, {"consolidation": {"enabled": True}}, {"ttlSecondsAfterEmpty": 30}])
    )
    reference = {"providerRef": {"name": draw(NAMES)}}
    metadata = draw(_metadata(name))
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": metadata,
        "spec": {**spec, **how, **reference},
    }


@st.composite
def node_templates(draw: st.DrawFn, name: str) -> RawObject:
    spec: RawObject = draw(
        st.fixed_dictionaries(
            {
                "subnetSelector": _selectors("subnet"),
                "securityGroupSelector": _selectors("sg"),
                "instanceProfile": _WORDS,
            },
            optional={
                "metadataOptions": _OPTIONS,
                "tags": _MAPS,
                "userData": st.text(max_size=20),
                "detailedMonitoring": st.booleans(),
                "blockDeviceMappings": _DISKS,
            },
        )
    )
    disks: list[RawObject] = spec.get("blockDeviceMappings", [])
    for disk in disks:
        disk["ebs"]["volumeSize"] = draw(_OLD_SIZES)
    selector = draw(
        st.one_of(
            _selectors("ami"),
            _optional(
                **{"aws::name": _LISTS, "aws::owners": st.sampled_from(["self", "self,amazon"])}
            ).filter(bool),
            st.none(),
        )
    )
    if selector:
        # An owner alone selects nothing in v1, nor did it select anything in particular before.
        selector = {"aws::name": "image", **selector} if "aws::owners" in selector else selector
        spec |= {
            "amiSelector": selector,
            "amiFamily": draw(st.sampled_from([*_FAMILIES, "Ubuntu", "Custom"])),
        }
    elif draw(st.booleans()):
        spec["amiFamily"] = draw(st.sampled_from(_FAMILIES))
    metadata = draw(_metadata(name))
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": metadata,
        "spec": spec,
    }


@st.composite
def beta_pools(draw: st.DrawFn, name: str) -> RawObject:
    template = draw(
        st.fixed_dictionaries(
            {"requirements": _REQUIREMENTS, "nodeClassRef": st.fixed_dictionaries({"name": NAMES})},
            optional={"taints": _TAINTS, "kubelet": _KUBELETS},
        )
    )
    disruption = draw(
        st.one_of(
            _optional(consolidationPolicy=st.just("WhenUnderutilized"), expireAfter=_DURATIONS),
            st.fixed_dictionaries(
                {"consolidationPolicy": st.just("WhenEmpty"), "consolidateAfter": _DURATIONS},
                optional={"budgets": st.just([{"nodes": "10%", "schedule": "@daily", "duration": "1h"}])},
            ),
        )
    )
    rest = draw(_optional(weight=st.integers(1, 100), limits=st.dictionaries(st.just("cpu"), _QUANTITIES)))
    labels = draw(_MAPS)
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": draw(_metadata(name)),
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": template},
            "disruption": disruption,
            **rest,
        },
    }


@st.composite
def beta_classes(draw: st.DrawFn, name: str) -> RawObject:
    terms = st.just([{"tags": {"a": "b"}}])
    spec = draw(
        st.fixed_dictionaries(
            {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms, "role": _WORDS},
            optional={
                "metadataOptions": _OPTIONS,
                "tags": _MAPS,
                "blockDeviceMappings": _DISKS,
                "userData": _WORDS,
            },
        )
    )
    if draw(st.booleans()):
        spec |= {
            "amiFamily": draw(st.sampled_from([*_FAMILIES, "Ubuntu", "Custom"])),
            "amiSelectorTerms": [{"id": "ami-1"}],
        }
    else:
        spec["amiFamily"] = draw(st.sampled_from(_FAMILIES))
    return {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": draw(_metadata(name)),
        "spec": spec,
    }


@st.composite
def inputs(draw: st.DrawFn) -> list[RawObject]:
    """A whole input: pools and classes of one generation, names shared at will, each name once per kind."""
    pools, classes = draw(st.sampled_from([(provisioners, node_templates), (beta_pools, beta_classes)]))
    names = st.lists(NAMES, max_size=3, unique=True)
    objects = [draw(pools(name)) for name in draw(names)] + [draw(classes(name)) for name in draw(names)]
    return draw(st.permutations(objects))
