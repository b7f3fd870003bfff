# SPDX-License-Identifier: Apache-2.0
"""What we promise about speed and memory, measured: each number beside a yardstick of the same run."""
