# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest

from karpenter.cli import main, solve

CATALOGUE = {
    "instanceTypes": [
        {
            "name": name,
            "labels": {"kubernetes.io/arch": "amd64"},
            "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "29"},
            "allocatable": {"cpu": cpu, "memory": "7Gi", "pods": "29"},
            "offerings": [["us-east-1a", "on-demand", price]],
        }
        for name, cpu, price in (("m5.large", "2", 0.096), ("m5.xlarge", "4", 0.192))
    ]
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }
        }
    },
}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [container], **spec},
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "standing",
        "labels": {"karpenter.sh/nodepool": "default", "karpenter.sh/initialized": "true"},
    },
    "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2", "memory": "7Gi", "pods": "29"}},
}


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    (tmp_path / "catalogue.json").write_text(json.dumps(CATALOGUE), encoding="utf-8")
    return tmp_path / "problem.json"


def write(path: Path, *objects: dict[str, Any], **more: Any) -> str:
    path.write_text(
        json.dumps({"catalogue": "catalogue.json", "objects": [POOL, *objects], **more}), encoding="utf-8"
    )
    return str(path)


def test_a_table_names_the_nodes_to_buy_and_their_price(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["solve", write(problem, pod("a"), pod("b"))])

    shown = capsys.readouterr().out
    assert code == 0
    assert "2 on 1 new nodes" in shown
    assert "m5.large" in shown
    assert "m5.xlarge +100%" in shown


def test_json_has_the_keys_that_programs_read(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemons = {
        "kind": "DaemonSet",
        "metadata": {"name": "logs", "namespace": "kube-system", "uid": "1"},
        "spec": {
            "template": {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "100m"}}}]}}
        },
    }
    bound = pod("bound", nodeName="standing")

    code = main(
        [
            "solve",
            write(problem, daemons, NODE, bound, pod("a", "500m"), pod("b", "1500m"), pod("c", "64")),
            "-o",
            "json",
        ]
    )

    answer = json.loads(capsys.readouterr().out)
    assert code == 1
    assert answer["existing"] == {"standing": ["shop/a"]}
    assert answer["newNodes"][0]["pods"] == ["shop/b"]
    assert answer["newNodes"][0]["alternatives"][0]["instanceType"] == "m5.large"
    assert answer["unschedulable"][0]["pod"] == "shop/c"
    assert answer["unschedulable"][0]["reasons"][0]["constraints"][0]["cause"] == "resources"
    assert answer["pricePerHour"] == pytest.approx(0.096)
    assert answer["solveSeconds"] > 0
    assert answer["maxRssMiB"] > 0


def test_a_refused_pod_is_explained_below_the_table(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["solve", write(problem, pod("c", "64"), pod("d", "64"))])

    shown = capsys.readouterr().out
    assert code == 1
    assert "shop/c and 1 more" in shown
    assert "smallest change" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "JSON"),
        (
            '{"catalogue": "catalogue.json", "objects": [{"kind": "Banana"}]}',
            'objects[0].kind: "Banana" is not one of',
        ),
        (
            '{"catalogue": "catalogue.json", "objects": [{"kind": "Pod", "metadata": {"name": 3}}]}',
            "objects[0], Pod",
        ),
        ('{"objects": []}', "catalogue: is not given"),
        ('{"catalogue": "none.json", "objects": []}', "none.json"),
    ],
)
def test_a_malformed_problem_is_refused_with_the_object_and_the_field(
    problem: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    problem.write_text(text, encoding="utf-8")

    code = main(["solve", str(problem)])

    assert code == 2
    assert said in capsys.readouterr().err


def test_an_amount_in_the_catalogue_that_cannot_be_read_names_the_type(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"instanceTypes": [{**CATALOGUE["instanceTypes"][0], "capacity": {"cpu": "lots"}}]}
    (tmp_path / "broken.json").write_text(json.dumps(broken), encoding="utf-8")

    code = main(["solve", write(problem), "--catalogue", str(tmp_path / "broken.json")])

    assert code == 2
    assert "m5.large" in capsys.readouterr().err


def test_a_deadline_that_is_no_duration_is_said(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["solve", write(problem), "--deadline", "soon"])

    assert code == 2
    assert "--deadline" in capsys.readouterr().err


def test_memory_is_told_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)

    assert solve.most_memory_mib() > 0
