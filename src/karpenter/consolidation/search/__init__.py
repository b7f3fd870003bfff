# SPDX-License-Identifier: Apache-2.0
"""Looking for a cheaper cluster: ``search(world)`` gives nodes that go, nodes that come, and who moves where.

Pure: the same world has the same answer, and tries are counted, not seconds.
"""

from karpenter.consolidation.search.searching import Outcome, explore
from karpenter.consolidation.search.surveying import Survey, survey
from karpenter.consolidation.search.terrain import Kind, Source, Standing, Terrain
from karpenter.consolidation.search.writing import written
from karpenter.consolidation.types import Rearrangement, World

__all__ = [
    "Kind",
    "Outcome",
    "Source",
    "Standing",
    "Survey",
    "Terrain",
    "explore",
    "search",
    "survey",
    "written",
]


def search(world: World) -> Rearrangement:
    """Return the cheapest rearrangement found of a world; an empty one if nothing pays."""
    found = survey(world)
    return written(found, explore(found.terrain, world.tries, world.seed, world.stop))
