# SPDX-License-Identifier: Apache-2.0
"""Runs the controller: settings, the one composition root, probes, leader election."""
