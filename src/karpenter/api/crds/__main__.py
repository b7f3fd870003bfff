# SPDX-License-Identifier: Apache-2.0
"""``python -m karpenter.api.crds`` writes the definition files; ``--check`` only compares them."""

from __future__ import annotations

import sys

from karpenter.api.crds.write import main

sys.exit(main(sys.argv[1:]))
