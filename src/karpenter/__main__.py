# SPDX-License-Identifier: Apache-2.0
"""``python -m karpenter`` is ``karpenter``."""

from karpenter.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
