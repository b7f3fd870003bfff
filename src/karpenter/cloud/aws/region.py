# SPDX-License-Identifier: Apache-2.0
"""The region that calls to AWS go to.

The first of these that names one counts: the caller, ``AWS_REGION`` (which EKS sets in pods and boto3 does not read),
``AWS_DEFAULT_REGION`` or the profile, and the instance metadata service of the EC2 instance that this process runs on.
The metadata service is asked in a thread, for a second, and only where nothing else names a region.
"""

from __future__ import annotations

import asyncio
import os

import botocore.session
from botocore.utils import IMDSRegionProvider

__all__ = ["configured_region", "find_region"]


def configured_region(given: str = "") -> str:
    """Return the region that the caller or the environment names; empty if neither does."""
    return (
        given
        or os.environ.get("AWS_REGION", "")
        or str(botocore.session.Session().get_config_variable("region") or "")
    )


async def find_region(given: str = "") -> str:
    """Return the configured region, else that of this EC2 instance; empty if nothing names one."""
    return configured_region(given) or await asyncio.to_thread(_region_of_this_instance)


def _region_of_this_instance() -> str:
    return str(IMDSRegionProvider(botocore.session.Session()).provide() or "")
