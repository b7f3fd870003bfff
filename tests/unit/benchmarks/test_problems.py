# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
from pathlib import Path

import pytest
from benchmarks.peers.problems import SHAPES, main, make_problem, render_problem

CATALOGUE = Path(__file__).parents[3] / "benchmarks" / "peers" / "catalogue.json"


@pytest.mark.parametrize(
    ("shape", "count", "seed", "digest"),
    [
        ("inflate", 12, 1, "d8fce9352048749b5490d25864da398643d675948608924f28979da5abb232c3"),
        ("generic", 30, 1, "ba2636979082c83a9405b107cfb396be3e8c0f8fde57389da7e083366a67095f"),
        ("diverse", 100, 1, "e2adf1f25d0c49688bb1d9549b7d17c5dd3ff8895723bceb301c390d0ba51a13"),
        ("diverse", 101, 7, "f54f9a98b777d65ea4db7f9e88fa0370dcf1a1fb549119a0922eef7def08004b"),
        ("shapes", 50, 3, "e8f4936c3cba61fb95aacf98585915097da8c2d44b2d963096856f6465c88115"),
        ("big", 60, 1, "7f081d515b680c4cd9088ca91465540244400a4b222d858963df9fb5a403f1d3"),
        ("pools", 60, 2, "20a61b672f53b4d3ca9379dd1d198a17efec4187eae1b780ec15d87cef262688"),
    ],
)
def test_the_same_arguments_give_the_same_bytes_for_ever(
    shape: str, count: int, seed: int, digest: str
) -> None:
    text = render_problem(shape, count, seed)

    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_as_many_pods_as_asked_for_and_a_pool(shape: str) -> None:
    objects = make_problem(shape, 20)["objects"]

    kinds = [each["kind"] for each in objects]
    assert kinds.count("Pod") == 20
    assert kinds.count("NodePool") >= 1
    assert len({each["metadata"]["uid"] for each in objects}) == len(objects)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "inflate"])
def test_another_seed_gives_other_pods(shape: str) -> None:
    assert render_problem(shape, 50, 1) != render_problem(shape, 50, 2)


def test_the_command_prints_the_problem_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["generic", "3", "9"])

    assert code == 0
    assert capsys.readouterr().out == render_problem("generic", 3, 9)


def test_fewer_than_no_pods_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["generic", "-3"])

    assert "fewer than 0" in capsys.readouterr().err


def test_the_catalogue_has_the_types_that_the_problems_name() -> None:
    catalogue = json.loads(CATALOGUE.read_text(encoding="utf-8"))

    types = {each["name"]: each for each in catalogue["instanceTypes"]}
    assert len(types) == 1137
    assert types["c7i.2xlarge"]["allocatable"] == {
        "cpu": "7910m",
        "memory": "14162Mi",
        "pods": "58",
        "ephemeral-storage": "17Gi",
    }
    assert {"c5.large", "m5.large", "r5.large", "m5.xlarge"} <= set(types)
