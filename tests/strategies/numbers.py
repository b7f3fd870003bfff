# SPDX-License-Identifier: Apache-2.0
"""Every number, quantity, duration and moment that the author of an object may write and an API server takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from karpenter.api import labels as names

_LIMITS = (0, 1, -1, 30, 2**31 - 1, -(2**31), 10**11, 10**15, 2**63 - 1, -(2**63))

INT32 = st.one_of(st.sampled_from([each for each in _LIMITS if abs(each) < 2**31]), st.integers(0, 2**31 - 1))
INT64 = st.one_of(st.sampled_from(_LIMITS), st.integers(-(2**63), 2**63 - 1))
COUNTS = st.one_of(st.sampled_from([each for each in _LIMITS if each >= 0]), st.integers(0, 2**63 - 1))

_NUMBER = st.one_of(
    st.integers(0, 10**25).map(str),
    st.sampled_from(["0", "1", "0.000000001", "1e18", "1e-18", "9223372036854775807"]),
)
QUANTITIES = st.one_of(
    st.tuples(_NUMBER, st.sampled_from(["", "m", "k", "Ki", "E", "Ei", "n"])).map(
        lambda parts: parts[0] if "e" in parts[0] else "".join(parts)
    ),
    st.sampled_from(["1E3", ".5", "5."]),
)
# The pattern of a CRD takes more than Kubernetes' own kinds do, numbers without quotes included.
CRD_QUANTITIES = st.one_of(
    QUANTITIES, st.sampled_from(["-1", "-9Ei", "1e1.5", "1e1000", "+.5", 7, 1.5, 2**63])
)
_RESOURCE = st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"])
RESOURCES = st.dictionaries(_RESOURCE, QUANTITIES, max_size=3)
CRD_RESOURCES = st.dictionaries(_RESOURCE, CRD_QUANTITIES, max_size=3)

# What the patterns of expireAfter, consolidateAfter and terminationGracePeriod take, and what annotations hold.
DURATIONS = st.one_of(
    st.tuples(st.integers(0, 10**20), st.sampled_from("smh")).map(lambda parts: f"{parts[0]}{parts[1]}"),
    st.sampled_from(["0s", "2562047h", "2562048h", "Never"]),
)
MOMENTS = st.one_of(
    st.datetimes(timezones=st.just(UTC)).map(lambda each: each.isoformat()),
    st.sampled_from(
        [
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
            "9999-12-31T23:59:59-14:00",
            "0001-01-01T00:00:00+14:00",
        ]
    ),
)
_NUMERIC_TEXT = st.one_of(
    QUANTITIES, DURATIONS, MOMENTS, st.sampled_from(["1e400", "-1e400", "inf", "nan", "true"])
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a pod that its author, or the one who deletes it, chooses."""
    metadata: dict[str, Any] = {
        "annotations": {
            names.DO_NOT_DISRUPT: draw(_NUMERIC_TEXT),
            names.POD_DELETION_COST: draw(_NUMERIC_TEXT),
        }
    }
    if draw(st.booleans()):
        metadata |= {"deletionTimestamp": draw(MOMENTS), "deletionGracePeriodSeconds": draw(COUNTS)}
    container = {
        "name": "c",
        "resources": {"requests": draw(RESOURCES), "limits": draw(RESOURCES)},
        "ports": [{"hostPort": draw(INT32), "containerPort": 80}],
    }
    spread = {
        "maxSkew": draw(INT32),
        "minDomains": draw(INT32),
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": {},
    }
    return {
        "metadata": metadata,
        "spec": {
            "terminationGracePeriodSeconds": draw(COUNTS),
            "activeDeadlineSeconds": draw(COUNTS),
            "priority": draw(INT32),
            "overhead": draw(RESOURCES),
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": draw(INT64)}],
            "topologySpreadConstraints": draw(st.sampled_from([[], [spread]])),
            "containers": [container],
        },
        "status": {"startTime": draw(MOMENTS)},
    }


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a node that its kubelet, or whoever may write to its status, chooses."""
    condition = {
        "status": draw(st.sampled_from(["True", "False", "Unknown"])),
        "lastTransitionTime": draw(MOMENTS),
    }
    return {
        "spec": {"taints": [{"key": "t", "effect": "NoExecute", "timeAdded": draw(MOMENTS)}]},
        "status": {
            "capacity": draw(RESOURCES),
            "allocatable": draw(RESOURCES),
            "conditions": [{"type": "Ready", **condition}],
        },
    }


@st.composite
def claims(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a NodeClaim that whoever may write to it chooses."""
    record = draw(
        st.sampled_from(['{"command":"x","decided_at":1e400}', '{"command":"x","decided_at":1,"reason":"?"}'])
    )
    return {
        "annotations": draw(
            st.dictionaries(
                st.sampled_from([names.TERMINATION_TIMESTAMP, f"{names.GROUP}/launch-attempt"]),
                _NUMERIC_TEXT,
                max_size=2,
            )
        )
        | draw(st.sampled_from([{}, {names.DISRUPTION_COMMAND: record}])),
        "spec": {
            "expireAfter": draw(DURATIONS),
            "terminationGracePeriod": draw(DURATIONS),
            "resources": {"requests": draw(CRD_RESOURCES)},
        },
        "status": {
            "lastPodEventTime": draw(MOMENTS),
            "capacity": draw(CRD_RESOURCES),
            "allocatable": draw(CRD_RESOURCES),
        },
        "transition": draw(MOMENTS),
    }


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a NodePool's spec that hold numbers."""
    budget = {
        "nodes": draw(st.sampled_from(["0", "1", "999999999", "9999999999999", "100%", "100000%", "-1"])),
        "schedule": draw(st.sampled_from(["* * * * *", "0 0 29 2 *", "@yearly", "99 * * * *"])),
        "duration": draw(DURATIONS),
    }
    return {
        "limits": draw(CRD_RESOURCES),
        "weight": draw(INT32),
        "disruption": {"consolidateAfter": draw(DURATIONS), "budgets": [budget]},
    }
