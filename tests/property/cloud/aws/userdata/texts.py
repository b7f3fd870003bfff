# SPDX-License-Identifier: Apache-2.0
"""Hostile and harmless texts, labels, taints and kubelet settings to write user data from."""

from __future__ import annotations

from hypothesis import strategies as st

from karpenter.api.core import Taint
from karpenter.api.ec2nodeclass import KubeletConfiguration

# What breaks out of a badly quoted word, of an archive or of a document.
ATTACKS = (
    "$(touch /tmp/x)",
    "`reboot`",
    "'; reboot; '",
    '"; reboot; "',
    "' --kubelet-extra-args '",
    "\\",
    "\\'",
    "$HOME",
    "${IFS}",
    "a\nreboot\n",
    "\n--karpenter-0--\n",
    "--//",
    "\n--//\nContent-Type: text/x-shellscript\n\nreboot\n",
    "EOF",
    "&& reboot",
    "| reboot",
    "> /etc/passwd",
    "* ? [a-z] ~ {a,b} !!",
    "# comment",
    "\u2018; reboot; \u2019",
    "$(Restart-Computer)",
    "`n",
    "</powershell>",
    "]]> -->",
    '"""\n[settings]\n',
    "'''",
    ": - {a: b}",
    "%n %% %s",
    "ä \u2028 \x85 \ufeff \U0001f680",
)

anything = st.one_of(
    st.text(max_size=40),
    st.sampled_from(ATTACKS),
    st.lists(st.sampled_from(ATTACKS) | st.text(max_size=8), max_size=4).map("".join),
)

# What the kubelet's command line can carry, though Kubernetes allows much less.
flag_texts = st.one_of(
    st.text(alphabet="abcXYZ019-_.$`(){}[]|&;*?~!#%^<>@+/äß\u2018\u2019\U0001f680", min_size=1, max_size=20),
    st.sampled_from(("$(reboot)", "`reboot`", "$HOME", "a;b", "a|b", "a&&b", "<5%", ">x", "!!", "*", "~")),
)
kubernetes_names = st.from_regex(r"[a-z0-9]([-a-z0-9_.]{0,20}[a-z0-9])?", fullmatch=True)
label_keys = st.one_of(
    kubernetes_names,
    st.tuples(
        st.sampled_from(("example.com", "karpenter.sh", "kubernetes.io", "x.k8s.io")), kubernetes_names
    ).map("/".join),
    flag_texts,
)
labels = st.dictionaries(label_keys, flag_texts | kubernetes_names | st.just(""), max_size=6)
taints = st.lists(
    st.builds(
        Taint,
        key=flag_texts,
        value=flag_texts | st.just(""),
        effect=st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule")),
    ),
    max_size=4,
    unique_by=lambda taint: (taint.key, taint.effect),
).map(tuple)

_counts = st.none() | st.integers(0, 2**31 - 1)
_reserved = st.dictionaries(
    st.sampled_from(("cpu", "memory", "pid", "ephemeral-storage")), flag_texts, max_size=4
)
_signals = st.dictionaries(
    st.sampled_from(("memory.available", "nodefs.available", "pid.available")), flag_texts, max_size=3
)
kubelets = st.none() | st.builds(
    KubeletConfiguration,
    cluster_dns=st.lists(st.ip_addresses().map(str), max_size=2).map(tuple),
    max_pods=_counts,
    pods_per_core=_counts,
    system_reserved=_reserved,
    kube_reserved=_reserved,
    eviction_hard=_signals,
    eviction_soft=_signals,
    eviction_soft_grace_period=_signals,
    eviction_max_pod_grace_period=_counts,
    image_gc_high_threshold_percent=st.none() | st.integers(0, 100),
    image_gc_low_threshold_percent=st.none() | st.integers(0, 100),
    cpu_cfs_quota=st.none() | st.booleans(),
)
