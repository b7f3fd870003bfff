# SPDX-License-Identifier: Apache-2.0
"""The Go project's own end-to-end suites, run against our controller.

The suites see only a cluster and an AWS account. ``sources`` builds them from the public Go modules into a per-user
cache, ``planes`` starts a cluster for each, ``runs`` runs them side by side, ``reports`` turns their JSON reports into
a table and compares them with ``known.toml``, the list of specs that are expected to fail and why.

Run ``python -m tests.upstream --help``.
"""
