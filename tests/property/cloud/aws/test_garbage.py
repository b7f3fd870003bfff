# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.leaks import OPEN_LAUNCH_S, OWNER_GONE_S, Owner, leaks
from karpenter.cloud.protocol import Machine
from tests.unit.cloud.aws.builders import claim

# How fast the machine is says nothing about the promises.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"i-{n}" for n in range(4)]
UIDS = [f"uid-{n}" for n in range(4)]

MACHINES = st.lists(
    st.builds(
        lambda name, age_s, state, uid: Machine(
            f"aws:///z/{name}", state=state, created_at=NOW - timedelta(seconds=age_s), claim_uid=uid
        ),
        st.sampled_from(NAMES),
        st.floats(0, 2000),
        st.sampled_from(["pending", "running", "stopped", "shutting-down"]),
        st.sampled_from(["", *UIDS]),
    ),
    max_size=4,
    unique_by=lambda each: each.provider_id,
)


def made(uid: str, name: str, age_s: float) -> NodeClaim:
    plain = claim(uid, provider_id=f"aws:///z/{name}" if name else "")
    stamp = NOW - timedelta(seconds=age_s)
    return NodeClaim(
        metadata=replace(plain.metadata, creation_timestamp=stamp), spec=plain.spec, status=plain.status
    )


CLAIMS = st.lists(
    st.builds(made, st.sampled_from(UIDS), st.sampled_from(["", *NAMES]), st.floats(0, 3000)),
    max_size=4,
    unique_by=lambda each: each.metadata.uid,
)


def owners(machine: Machine) -> frozenset[str]:
    return frozenset(filter(None, [machine.claim_uid]))


@UNHURRIED
@given(MACHINES, CLAIMS)
def test_no_machine_is_ended_that_is_fresh_or_named_or_may_still_be_taken(
    machines: list[Machine], claims: list[NodeClaim]
) -> None:
    named = {each.status.provider_id for each in claims}
    waiting = {each.metadata.uid for each in claims if not each.status.provider_id}

    for leak in leaks(machines, tuple(map(Owner.of, claims)), NOW, owners):
        assert leak.machine.created_at is not None
        assert (NOW - leak.machine.created_at).total_seconds() >= OWNER_GONE_S
        assert leak.machine.provider_id not in named
        assert leak.machine.claim_uid not in waiting
        assert leak.why


@UNHURRIED
@given(MACHINES, CLAIMS)
def test_every_machine_that_nobody_answers_for_is_ended_in_the_end(
    machines: list[Machine], claims: list[NodeClaim]
) -> None:
    later = NOW + timedelta(seconds=OPEN_LAUNCH_S)
    ended = {
        each.machine.provider_id for each in leaks(machines, tuple(map(Owner.of, claims)), later, owners)
    }
    named = {each.status.provider_id for each in claims}
    waiting = {each.metadata.uid for each in claims if not each.status.provider_id}

    for machine in machines:
        if machine.state != "shutting-down" and machine.claim_uid not in waiting:
            assert (machine.provider_id in ended) != (machine.provider_id in named)
