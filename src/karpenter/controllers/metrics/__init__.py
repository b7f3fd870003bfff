# SPDX-License-Identifier: Apache-2.0
"""Metrics of objects: what pods, nodes and pools are now, read at each scrape, and how long pods took."""

from karpenter.controllers.metrics.objects import ObjectMetrics
from karpenter.controllers.metrics.podtimes import PodTimes

__all__ = ["ObjectMetrics", "PodTimes"]
