# SPDX-License-Identifier: Apache-2.0
"""Instance types: from what EC2 describes to what a node class can buy and how large its nodes will be.

==================  ========================================================================================
``description``     one entry of DescribeInstanceTypes, read into ``TypeFacts``
``sizes``           capacity, overheads, and what is left for pods
``traits``          the labels that a type gives to its nodes
``compatibility``   which types a node class can be launched on, and why not on the others
``offerings``       zone by capacity type, reservations, partitions, tenancies, with their prices
``memory``          what real nodes have shown of their memory
``provider``        ``InstanceTypes``, which keeps all that up to date
``listing``         the same from the package's own tables, without an account
==================  ========================================================================================

Names are imported from the modules: only ``provider`` needs a client of AWS.
"""

__all__ = [
    "compatibility",
    "description",
    "listing",
    "memory",
    "offerings",
    "provider",
    "sizes",
    "traits",
]
