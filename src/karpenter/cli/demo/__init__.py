# SPDX-License-Identifier: Apache-2.0
"""``karpenter demo``: the whole product at work on this machine, in a minute or two, told as it happens.

==============  =============================================================================================
``playing``     the command: a private sandbox, the story in it, and then the user's turn
``story``       what is done, step by step, and what is waited for
``seeing``      the cluster at one moment, from the API's objects
``telling``     what has changed between two moments, as lines for people
``reasons``     why the machine that was bought is the right one
``money``       what it costs, and what it would cost otherwise
``screen``      lines that stay, and below them a table that is kept up to date
==============  =============================================================================================

Nothing is made up: every line is read from the cluster and from the EC2 model while they run.
"""

from karpenter.cli.demo.playing import command

__all__ = ["command"]
