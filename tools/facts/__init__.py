# SPDX-License-Identifier: Apache-2.0
"""Rebuilds the tables of ``karpenter.facts`` from two public packages and says what changed.

================  ==========================================================================================
``sources``       reads moto's description of EC2 and the generated tables of the Go module
``tables``        puts them together into the package's tables, always in the same order and spelling
``changes``       what differs between the tables that are there and the new ones
================  ==========================================================================================
"""

__all__ = ["changes", "sources", "tables"]
