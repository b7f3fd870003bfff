# SPDX-License-Identifier: Apache-2.0
"""Plans held against Kubernetes' own scheduler: make the planned nodes, let it bind, see who is left.

``translate`` writes a problem and its plan as API objects, ``run_case`` carries one case out on a control plane,
``agree`` carries out many, and ``Tally`` counts. `python -m tests.e2e.agreement 0 200` looks for disagreements and
prints each.
"""

from tests.e2e.agreement.client import Api
from tests.e2e.agreement.nominating import Nominating, nominations
from tests.e2e.agreement.running import Outcome, prepare, run_case
from tests.e2e.agreement.tallying import Tally, agree
from tests.e2e.agreement.translation import Case, translate

__all__ = [
    "Api",
    "Case",
    "Nominating",
    "Outcome",
    "Tally",
    "agree",
    "nominations",
    "prepare",
    "run_case",
    "translate",
]
