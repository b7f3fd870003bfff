# SPDX-License-Identifier: Apache-2.0
"""Our scheduler and the public Go Karpenter, on the same problems in the same run.

`python -m benchmarks.peers` prints the table. The parts: ``problems`` makes the input, ``go`` is the Go side
and ``toolchain`` builds it, ``sides`` runs both and audits what they report, ``bound`` says what no plan can
beat (from ``offers`` and ``simplex``), ``promises`` what we owe, ``report`` lays it out.
"""

__all__ = ["bound", "offers", "problems", "promises", "report", "sides", "simplex", "toolchain"]
