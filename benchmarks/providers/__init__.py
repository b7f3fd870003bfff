# SPDX-License-Identifier: Apache-2.0
"""Our AWS provider beside the Go Karpenter's own packages, on the same EC2 model: `python -m benchmarks.providers`.

==============  =================================================================================================
``cases``       node classes, NodeClaims and errors to ask both about, made from a seed
``asking``      asks the Go program
``ours``        asks our provider
``comparing``   holds the answers against each other and names each difference
``running``     does all of it on one EC2 model
``listed``      the differences that docs/reference/differences.md tells of, and how each is recognised
==============  =================================================================================================
"""
