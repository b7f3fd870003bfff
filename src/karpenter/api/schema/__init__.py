# SPDX-License-Identifier: Apache-2.0
"""The rules that a Kubernetes API server applies to our kinds, in process and without one.

``load_crds().admit(obj)`` gives the verdict, the object as it would be stored and every problem, with the
fields and words of kube-apiserver 1.34. How it comes about:

==================  ========================================================================================
``admission``       the order of things, and the kinds there are
``structural``      a definition's schema, compiled
``prune``           unknown fields go
``defaults``        missing fields come
``validate``        types, limits, patterns, enumerations
``metadata``        names, labels, owners (``names``: which texts are any of them)
``listtypes``       no duplicates in sets and keyed lists
``rules``           rules in CEL (``cel``: expressions; ``celfunctions``: Kubernetes' own functions)
``correlation``     what was wrong before and did not change is forgiven
``problems``        one problem of one field (``gotext``: values as Go prints them)
``regex, formats``  texts against patterns and formats, as Go reads those
==================  ========================================================================================
"""

from karpenter.api.schema.admission import Admission, Definition, Registry, UnknownKindError, load_crds
from karpenter.api.schema.problems import Problem, ProblemType, ValidationFailedError
from karpenter.api.schema.structural import SchemaError

__all__ = [
    "Admission",
    "Definition",
    "Problem",
    "ProblemType",
    "Registry",
    "SchemaError",
    "UnknownKindError",
    "ValidationFailedError",
    "load_crds",
]
