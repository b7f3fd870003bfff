# SPDX-License-Identifier: Apache-2.0
"""From pending pods to NodeClaims.

================  ==========================================================================================
``waiting``       which pods wait for a node of ours
``market``        what each pool may buy now
``provisioner``   gather, solve, order, promise, explain
``orders``        the manifest of a planned node's NodeClaim
``sharing``       lets planned nodes ask for the same, so that they share launches
``nominating``    tells the scheduler where planned pods go
``placing``       binds planned pods to nodes that boot, where that is asked for
``placeable``     which of them may be
``following``     whether it does as planned
``foreseeing``    which plan is cheapest if it does not
================  ==========================================================================================
"""

from karpenter.controllers.provisioning.market import Market
from karpenter.controllers.provisioning.nominating import Nominator
from karpenter.controllers.provisioning.provisioner import Provisioner, ProvisionerSettings, Solver

__all__ = ["Market", "Nominator", "Provisioner", "ProvisionerSettings", "Solver"]
