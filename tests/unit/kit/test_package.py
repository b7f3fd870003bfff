# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from karpenter import kit


def test_the_package_lists_exactly_its_modules() -> None:
    modules = [module.name for module in pkgutil.iter_modules(kit.__path__)]

    assert sorted(modules) == kit.__all__


@pytest.mark.parametrize("name", kit.__all__)
def test_every_name_that_a_module_offers_exists(name: str) -> None:
    module = importlib.import_module(f"karpenter.kit.{name}")

    assert [offered for offered in module.__all__ if not hasattr(module, offered)] == []


def test_the_pure_modules_do_not_load_an_event_loop() -> None:
    program = (
        "import sys, karpenter.kit.quantity, karpenter.kit.durations, karpenter.kit.cron, karpenter.kit.structhash;"
        "sys.exit('asyncio' in sys.modules)"
    )

    finished = subprocess.run([sys.executable, "-c", program], check=False, timeout=15)

    assert finished.returncode == 0
