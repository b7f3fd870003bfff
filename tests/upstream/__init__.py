# SPDX-License-Identifier: Apache-2.0
"""The Go project's own end-to-end suites, run against our controller.

The suites see only a cluster and an AWS account. ``sources`` builds them from the public Go modules into a per-user
cache, ``specs`` lists what is in them, ``planes`` starts clusters, ``runs`` runs specs side by side, ``reports`` reads
what became of each and compares it with ``known.toml``, the list of specs that are expected not to pass and why.
``tables`` and ``measures`` show it.

Run ``python -m tests.upstream --help``.
"""
