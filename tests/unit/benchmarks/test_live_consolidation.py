# SPDX-License-Identifier: Apache-2.0
from typing import Any

import msgspec
import pytest
from benchmarks.consolidation.cluster import OVERHEAD, RESOURCES, Cluster, Workload
from benchmarks.live import standing
from benchmarks.live.__main__ import main
from benchmarks.live.consolidating import DEFAULT_SIDES, SIDES, Tidied, is_hasty, table
from benchmarks.live.papercloud import ListedCloud, read_types

from karpenter.api import labels as names
from karpenter.api.core import decode
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import InsufficientCapacityError, NodeClaimNotFoundError
from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODES
from tests.unit.controllers.paper import PaperClient

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """A small cluster scaled down to a third."""
    return standing.STATES["third"](6, 1)


def test_both_sides_buy_what_the_state_was_made_from(cluster: Cluster) -> None:
    text = standing.kwok_catalogue(cluster)

    types = {each.name: each for each in read_types(text)}
    prices = standing.prices(text)

    catalogue = cluster.market.catalogue
    assert len(prices) == len(catalogue.offerings)
    for position, offering in enumerate(catalogue.offerings):
        kind = catalogue.type_at(position)
        assert prices[kind.name, offering.zone, offering.capacity_type] == offering.price_per_hour
        room = [types[kind.name].allocatable[name] for name in RESOURCES]
        assert tuple(a - b for a, b in zip(room, OVERHEAD, strict=True)) == cluster.market.rooms[position]


def test_every_pod_stands_where_the_state_has_it_and_has_an_owner(cluster: Cluster) -> None:
    homes = {node.name: f"home-of-{node.name}" for node in cluster.nodes.values()}

    pods = standing.pods(cluster, homes)
    owners = {each["metadata"]["name"]: each["spec"] for each in standing.replica_sets(cluster)}

    assert len(pods) == len(cluster.pods())
    assert len({each["metadata"]["name"] for each in pods}) == len(pods)
    by_app: dict[str, int] = {}
    for pod in pods:
        app = pod["metadata"]["labels"]["app"]
        by_app[app] = by_app.get(app, 0) + 1
        assert pod["spec"]["nodeName"] in homes.values()
    assert by_app == {name: spec["replicas"] for name, spec in owners.items()}


def test_what_a_workload_insists_on_is_in_its_pods() -> None:
    workload = Workload(
        "w",
        (500, 1 << 30, 1),
        amd64=True,
        on_demand=True,
        zone="us-east-1a",
        apart=True,
        protected=True,
        weight=3.0,
    )

    template = standing._template(workload)

    assert template["spec"]["nodeSelector"] == {
        names.ARCH: "amd64",
        names.CAPACITY_TYPE: "on-demand",
        names.ZONE: "us-east-1a",
    }
    assert template["metadata"]["annotations"] == {
        names.DO_NOT_DISRUPT: "true",
        "controller.kubernetes.io/pod-deletion-cost": str(2 << 27),
    }
    assert "podAntiAffinity" in template["spec"]["affinity"]
    assert [each["metadata"]["name"] for each in standing.daemon_sets()] == ["daemon-0", "daemon-1"]


async def test_the_paper_cloud_sells_the_cheapest_that_a_claim_allows_once(cluster: Cluster) -> None:
    client: Any = PaperClient(FakeClock())
    text = standing.kwok_catalogue(cluster)
    cloud = ListedCloud(read_types(text), client)
    node_class = EC2NodeClass()
    wanted = standing.claims(cluster, CLASS)[0]
    claim = decode(msgspec.json.encode(wanted), NodeClaim)

    machine = await cloud.create(claim, node_class)

    assert await cloud.create(claim, node_class) is machine
    assert machine.labels[names.INSTANCE_TYPE] == wanted["spec"]["requirements"][1]["values"][0]
    [node] = (await client.list(NODES)).items
    assert node.spec.provider_id == machine.provider_id
    assert [each.key for each in node.spec.taints] == [names.UNREGISTERED_TAINT.key]
    assert await cloud.get(machine.provider_id) is machine
    with pytest.raises(NodeClaimNotFoundError):
        await cloud.delete(machine.provider_id)
    assert await cloud.list() == []
    nowhere = standing.claims(cluster, CLASS)[0]
    nowhere["spec"]["requirements"][3]["values"] = ["mars-1a"]
    with pytest.raises(InsufficientCapacityError):
        await cloud.create(decode(msgspec.json.encode(nowhere), NodeClaim), node_class)


def test_the_table_says_what_did_not_become_quiet() -> None:
    quiet = Tidied(
        "third", 50, 1, "ours", is_quiet=True, quiet_after_s=61.4, bound_per_hour=2.0, after_per_hour=3.0
    )
    late = Tidied("third", 50, 1, "go", quiet_after_s=600.0, bound_per_hour=2.0, after_per_hour=4.0)

    rows = table([quiet, late]).rows

    assert [(row[1], row[5], row[9]) for row in rows] == [("ours", "1.500", "61"), ("go", "2.000", "> 600")]
    assert quiet.as_json()["quiet_after_s"] == 61.4


@pytest.mark.parametrize(("evictions", "then"), [(5, "7.000"), (7, "7.000"), (20, "6.000")])
def test_the_table_compares_prices_at_equal_evictions(evictions: int, then: str) -> None:
    course = [(2, 9.0, 0), (12, 7.0, 5), (22, 6.0, 8)]
    ours = Tidied("third", 50, 1, "ours", bound_per_hour=2.0, evictions=8, course=course)
    theirs = Tidied("third", 50, 1, "go", bound_per_hour=2.0, evictions=evictions)
    elsewhere = Tidied("diurnal", 50, 1, "go", bound_per_hour=2.0, evictions=9)

    rows = table([ours, theirs, elsewhere]).rows

    assert [row[-1] for row in rows] == ["", then, ""]


def test_the_table_compares_sides_of_the_same_policy() -> None:
    sides = [
        Tidied("third", 50, 1, side, bound_per_hour=2.0, evictions=9, course=[(2, price, 0)])
        for side, price in (
            ("ours", 9.0),
            ("go", 8.0),
            ("ours-balanced", 7.0),
            ("go-balanced", 6.0),
            ("go-hasty", 5.0),
        )
    ]

    assert [row[-1] for row in table(sides).rows] == ["", "9.000", "", "7.000", "9.000"]


def test_a_hasty_side_is_run_only_if_it_is_named() -> None:
    assert [side for side in SIDES if is_hasty(side)] == ["go-hasty", "go-hasty-balanced"]
    assert not any(is_hasty(side) for side in DEFAULT_SIDES)


def test_a_side_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["consolidation", "--sides", "ours,theirs"])

    assert "there is no 'theirs'" in capsys.readouterr().err
