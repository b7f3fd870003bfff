# SPDX-License-Identifier: Apache-2.0
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tools.facts.__main__ import main
from tools.facts.tables import load

from tests.unit.cloud.aws.instancetypes.described import described

ZONES_SOURCE = """
class RegionsAndZonesBackend:
    zones = {
        "us-west-2": [
            Zone(region_name="us-west-2", name="us-west-2a", zone_id="usw2-az2"),
            Zone(region_name="us-west-2", name=other, zone_id="usw2-az9"),
            Region("us-west-2"),
        ],
    }
"""
PRICES = """
var InitialOnDemandPricesAWS = map[string]map[ec2types.InstanceType]float64{
\t// us-east-1
\t"us-east-1": {
\t\t// m5 family
\t\t"m5.large": %s, "m5.xlarge": 0.192000, "m5.free": 0.000000,
\t},
}
"""
BANDWIDTH = """
\tInstanceTypeBandwidthMegabits = map[string]int64{
\t\t// t2.nano has vague bandwidth information
\t\t"m5.large":  750,
\t\t"p3.8xlarge": 10000,
\t}
"""
LIMITS = """
var Limits = map[string]*VPCLimits{
\t"m5.large": {
\t\tIsTrunkingCompatible:    true,
\t\tBranchInterface:         9,
\t},
\t"t2.nano": {
\t\tIsTrunkingCompatible:    false,
\t\tBranchInterface:         0,
\t},
}
"""


class Sources:
    """The two packages, as far as they are read."""

    def __init__(self, folder: Path) -> None:
        self.moto, self.karpenter, self.data = folder / "moto", folder / "karpenter", folder / "data"
        self.types = {"m5.large": described("m5.large"), "x9.broken": {"InstanceType": "x9.broken"}}
        self.zones = {"m5.large": ["us-west-2a", "us-west-2b"]}
        self.price = "0.096000"
        self.write()

    def write(self) -> None:
        resources = self.moto / "ec2/resources"
        self._zipped(resources / "instance_types.json.gz", self.types)
        offers = [
            {"InstanceType": name, "Location": zone} for name, zones in self.zones.items() for zone in zones
        ]
        ids = [
            {"InstanceType": "m5.large", "Location": "usw2-az1"},
            {"InstanceType": "m5.large", "Location": "usw2-az2"},
        ]
        self._zipped(resources / "instance_type_offerings/availability-zone/us-west-2.json.gz", offers)
        self._zipped(resources / "instance_type_offerings/availability-zone-id/us-west-2.json.gz", ids)
        self._text(self.moto / "ec2/models/availability_zones_and_regions.py", ZONES_SOURCE)
        providers = self.karpenter / "pkg/providers"
        self._text(providers / "pricing/zz_generated.pricing_aws.go", PRICES % self.price)
        self._text(providers / "instancetype/zz_generated.bandwidth.go", BANDWIDTH)
        self._text(providers / "instancetype/zz_generated.vpclimits.go", LIMITS)

    def run(self, action: str) -> int:
        return main(
            [
                action,
                "--moto",
                str(self.moto),
                "--karpenter",
                str(self.karpenter),
                "--data",
                str(self.data),
            ]
        )

    def _zipped(self, path: Path, content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(content).encode()))

    def _text(self, path: Path, content: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def test_a_rebuild_makes_all_tables(sources: Sources) -> None:
    assert sources.run("rebuild") == 0

    tables = load(sources.data)
    m5 = tables.types["m5.large"]
    assert list(tables.types) == ["m5.large"]
    assert (m5.network_bandwidth_mbps, m5.branch_interfaces) == (750, 9)
    assert tables.regions == {
        "us-west-2": {
            # moto does not name the second zone: it gets the id that is left.
            "zones": {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"},
            "offered": {"ab": ["m5.large"]},
        }
    }
    assert tables.prices == {"us-east-1": {"m5.large": 0.096, "m5.xlarge": 0.192}}
    assert tables.network == {"p3.8xlarge": (10000, 0), "t2.nano": (None, 0)}


def test_the_same_sources_give_the_same_bytes_and_no_difference(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.run("rebuild")
    before = {path.name: path.read_bytes() for path in sources.data.iterdir()}
    capsys.readouterr()

    assert sources.run("check") == 0
    assert sources.run("rebuild") == 0

    assert {path.name: path.read_bytes() for path in sources.data.iterdir()} == before
    assert capsys.readouterr().out == ""


def test_the_first_rebuild_tells_everything_as_new(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.run("rebuild")

    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "+ type m5.large",
        "+ region us-west-2",
        "+ prices us-east-1: 2",
        "+ network p3.8xlarge: (10000, 0)",
        "+ network t2.nano: (None, 0)",
    ]
    assert told.err == "1 types, 1 regions, 2 offers, 2 prices; 5 differences\n"


def test_a_check_tells_what_changed_and_writes_nothing(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.run("rebuild")
    before = {path.name: path.read_bytes() for path in sources.data.iterdir()}
    sources.types = {
        "m5.large": described("m5.large", MemoryInfo={"SizeInMiB": 9000}),
        "m6i.large": described("m6i.large"),
    }
    sources.zones = {"m5.large": ["us-west-2a"], "m6i.large": ["us-west-2a", "us-west-2c"]}
    sources.price = "0.120000"
    sources.write()
    capsys.readouterr()

    assert sources.run("check") == 1

    assert {path.name: path.read_bytes() for path in sources.data.iterdir()} == before
    assert capsys.readouterr().out.splitlines() == [
        "~ type m5.large: memory_mib 8192 -> 9000",
        "+ type m6i.large",
        "- zone us-west-2b: usw2-az1 -> None",
        "+ zone us-west-2c: usw2-az1",
        "~ offers us-west-2: 2 more, 1 fewer (type and zone)",
        "~ price us-east-1 m5.large: 0.096 -> 0.12 (+25.0%)",
    ]


def test_what_went_is_told(sources: Sources, capsys: pytest.CaptureFixture[str]) -> None:
    sources.types["m4.large"] = described("m4.large")
    sources.write()
    sources.run("rebuild")
    (sources.data / "prices.json").write_text(
        '{"us-east-1":{"m5.large":0.096,"m5.xlarge":0.192,"m4.large":0.1},"eu-west-1":{}}'
    )
    del sources.types["m4.large"]
    sources.write()
    capsys.readouterr()

    sources.run("check")

    assert capsys.readouterr().out.splitlines() == [
        "- type m4.large",
        "- prices eu-west-1: 0",
        "- price us-east-1 m4.large: 0.1",
    ]


def test_offers_that_stayed_are_not_told_when_a_zone_gets_another_id(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.run("rebuild")
    regions = json.loads((sources.data / "regions.json").read_text())
    regions["us-west-2"]["zones"]["us-west-2a"] = "usw2-az7"
    (sources.data / "regions.json").write_text(json.dumps(regions))
    capsys.readouterr()

    sources.run("check")

    assert capsys.readouterr().out.splitlines() == ["~ zone us-west-2a: usw2-az7 -> usw2-az2"]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("moto/ec2/resources/instance_types.json.gz", "cannot read"),
        ("moto/ec2/resources/instance_type_offerings/availability-zone/us-west-2.json.gz", "has no file"),
        ("karpenter/pkg/providers/pricing/zz_generated.pricing_aws.go", "has no file"),
    ],
)
def test_a_source_that_is_missing_is_an_error_with_a_hint(
    sources: Sources, missing: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources.moto.parent / missing).unlink()

    assert sources.run("rebuild") == 2

    told = capsys.readouterr().err
    assert message in told
    assert "hint:  --moto is the folder" in told


def test_a_table_that_is_written_in_another_way_is_an_error(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources.karpenter / "pkg/providers/instancetype/zz_generated.bandwidth.go").write_text("package x")

    assert sources.run("rebuild") == 2

    assert "found no network bandwidths" in capsys.readouterr().err
