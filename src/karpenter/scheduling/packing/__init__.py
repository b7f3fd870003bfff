# SPDX-License-Identifier: Apache-2.0
"""Packing: the cheapest set of nodes for a lot of pods, without looking at anything but sizes, masks and host rules."""

from karpenter.scheduling.packing.lot import Bin, Lot, Packing, PackOptions, Room, Shape
from karpenter.scheduling.packing.packer import bound, pack

__all__ = ["Bin", "Lot", "PackOptions", "Packing", "Room", "Shape", "bound", "pack"]
