# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

from karpenter.api import labels
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.reservations import RELEASED_LABELS, released_claims
from karpenter.cloud.protocol import Machine
from karpenter.controllers.reservations import ReservationEnds
from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import Metrics
from tests.unit.controllers.paper import PaperClient, paper_cluster
from tests.unit.state.worlds import claim, node

HELD = {labels.CAPACITY_TYPE: labels.RESERVED, labels.CAPACITY_RESERVATION_ID: "cr-1"}
PAID = Machine("p-a", labels={labels.CAPACITY_TYPE: labels.ON_DEMAND})


class Stand:
    """A claim in a reservation and its node."""

    def __init__(self, machine: Machine, *, expiring: bool = False) -> None:
        self.client, self.cluster = paper_cluster(FakeClock())
        self.listed = 0
        self.metrics = Metrics()
        self.machine = machine
        self.expiring = expiring
        self.client.store(NODES, node("n-a", provider_id="p-a", labels=HELD))
        self.ends = ReservationEnds(
            client=self.client,
            cluster=self.cluster,
            machines=self._machines,
            released=released_claims,
            expiring=lambda claims: claims if self.expiring else (),
            labels=RELEASED_LABELS,
            metrics=self.metrics,
        )

    async def _machines(self) -> Sequence[Machine]:
        self.listed += 1
        return [self.machine]

    def claim(self) -> NodeClaim | None:
        return self.cluster.informers.claims.get("a")


def stand_with_claim(machine: Machine, *, expiring: bool = False) -> Stand:
    stand = Stand(machine, expiring=expiring)
    stand.client.store(
        NODE_CLAIMS,
        claim(
            "a", provider_id="p-a", metadata={"labels": {labels.NODEPOOL: "default", **HELD}}, nodeName="n-a"
        ),
    )
    return stand


async def test_a_machine_that_left_its_reservation_is_labelled_as_paid_by_the_hour_with_its_node() -> None:
    stand = stand_with_claim(PAID)

    await stand.ends.reconcile()

    found = (stand.claim(), stand.cluster.informers.nodes.get("n-a"))
    for each in found:
        assert each is not None
        assert each.metadata.labels[labels.CAPACITY_TYPE] == labels.ON_DEMAND
        assert labels.CAPACITY_RESERVATION_ID not in each.metadata.labels


async def test_a_machine_in_its_reservation_is_left_alone() -> None:
    stand = stand_with_claim(Machine("p-a", labels=HELD))

    await stand.ends.reconcile()

    found = stand.claim()
    assert found is not None
    assert found.metadata.labels[labels.CAPACITY_RESERVATION_ID] == "cr-1"
    assert stand.client.calls == []


async def test_the_cloud_is_not_asked_where_nothing_is_reserved() -> None:
    stand = Stand(PAID)
    stand.client.store(NODE_CLAIMS, claim("a", provider_id="p-a"))

    await stand.ends.reconcile()

    assert stand.listed == 0


async def test_claims_of_a_capacity_block_that_is_about_to_end_are_deleted() -> None:
    stand = stand_with_claim(Machine("p-a", labels=HELD), expiring=True)

    await stand.ends.reconcile()

    assert _verbs(stand.client) == [("delete", "a")]


def _verbs(client: PaperClient) -> list[tuple[str, str]]:
    return [(each.verb, each.name) for each in client.calls]
