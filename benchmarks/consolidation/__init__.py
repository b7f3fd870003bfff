# SPDX-License-Identifier: Apache-2.0
"""Consolidation in faked time: the search beside a model of Karpenter's algorithm on the same clusters."""
