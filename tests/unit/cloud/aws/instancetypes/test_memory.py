# SPDX-License-Identifier: Apache-2.0
from karpenter.cloud.aws.instancetypes.memory import LearntMemory
from karpenter.kit.clock import FakeClock

DAY_S = 86400.0


def test_the_smallest_memory_seen_counts() -> None:
    memory = LearntMemory(FakeClock())

    news = [memory.learn("m5.large", ["ami-1"], figure) for figure in (8000, 7900, 7950, 7900)]

    assert news == [True, True, False, False]
    assert memory.get("m5.large", ["ami-1"]) == 7900
    assert memory.version == 2


def test_other_images_and_types_are_learnt_apart() -> None:
    memory = LearntMemory(FakeClock())

    memory.learn("m5.large", ["ami-1", "ami-2"], 8000)

    assert memory.get("m5.large", ["ami-2", "ami-1"]) == 8000
    assert memory.get("m5.large", ["ami-1"]) is None
    assert memory.get("m5.xlarge", ["ami-1", "ami-2"]) is None


def test_knowledge_lasts_60_days_from_the_last_node_that_showed_it() -> None:
    clock = FakeClock()
    memory = LearntMemory(clock)
    memory.learn("m5.large", ["ami-1"], 8000)

    clock.tick(59 * DAY_S)
    memory.learn("m5.large", ["ami-1"], 8000)
    clock.tick(59 * DAY_S)

    assert memory.get("m5.large", ["ami-1"]) == 8000
    clock.tick(DAY_S)
    assert memory.get("m5.large", ["ami-1"]) is None


def test_a_node_without_memory_teaches_nothing() -> None:
    memory = LearntMemory(FakeClock())

    assert not memory.learn("m5.large", ["ami-1"], 0)
    assert memory.get("m5.large", ["ami-1"]) is None
