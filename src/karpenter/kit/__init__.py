# SPDX-License-Identifier: Apache-2.0
"""The lowest room: small, exact tools that know nothing of nodes, clouds or API servers.

================  ==========================================================================================
``quantity``      Kubernetes quantities as exact integers, read and printed as Kubernetes does
``durations``     Go durations and the word ``Never``
``cron``          cron schedules with time zones, as robfig/cron reads them
``clock``         the only way to ask for the time or to sleep, and a fake one for tests
``tasks``         supervised tasks: named, restarted with backoff, stopped within a grace period
``batching``      the window that gathers many triggers into one batch
``backoff``       growing delays, per key, with jitter that is the same in every run
``cache``         a bounded cache whose entries die of age
``workqueue``     work by key: one worker a key, failures wait
``lookups``       work by key that is waited for only so long
``structhash``    the number that Go's hashstructure gives for a value
================  ==========================================================================================

Names are imported from the modules (``from karpenter.kit.quantity import Quantity``), not from here:
``quantity``, ``durations``, ``cron`` and ``structhash`` are pure, and who imports them must not load an event loop.
Only ``clock``, ``tasks``, ``batching``, ``workqueue`` and ``lookups`` import asyncio, and only ``clock`` reads a real
clock.
Everything here stands on the standard library and ``karpenter.errors``.
"""

__all__ = [
    "backoff",
    "batching",
    "cache",
    "clock",
    "cron",
    "durations",
    "lookups",
    "quantity",
    "rounds",
    "structhash",
    "tasks",
    "workqueue",
]
