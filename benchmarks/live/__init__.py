# SPDX-License-Identifier: Apache-2.0
"""The controller at work on a real control plane, measured: `python -m benchmarks.live ROW ...`.

============  =============================================================================================
``stage``     the control plane, the EC2 model and the programs around them
``gopeer``    the Go Karpenter for comparison: its kwok build
``workload``  the pods and pools of the rows, and how they are put into the cluster
``moments``   what the logs say about when things happened, and shares of what was measured
``reaction``  row: from an unschedulable pod to the launch call, beside Go
``placement`` row: what was planned and what it came to, with and without nominations
``storm``     row: thousands of pods at once, and the calls they cost
``holding``   row: a large cluster held: memory, idle processor time, lag of the event loop while solving
``report``    tables and JSON
============  =============================================================================================
"""

__all__ = ["gopeer", "holding", "moments", "placement", "reaction", "report", "stage", "storm", "workload"]
