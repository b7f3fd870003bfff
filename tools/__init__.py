# SPDX-License-Identifier: Apache-2.0
"""Programs for people who work on the package; none of them is installed with it."""
