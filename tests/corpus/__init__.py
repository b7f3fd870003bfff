# SPDX-License-Identifier: Apache-2.0
"""Cases that more than one suite runs: in process, and against the real thing."""
