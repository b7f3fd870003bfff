# SPDX-License-Identifier: Apache-2.0
"""The wire protocols of AWS, driven by the service descriptions that botocore ships as data.

===============  ===========================================================================================
``schema``       the descriptions: operations, shapes, names on the wire
``complaints``   how each service words a missing, unknown or malformed parameter
``query``        form parameters to Python values (protocols ``ec2`` and ``query``)
``documents``    JSON to Python values and back (protocols ``json`` and ``rest-json``)
``rest``         which operation a method and a path mean (protocol ``rest-json``)
``serialise``    Python values to XML
``routing``      from an HTTP request to a parsed call
``answers``      from a result or an error to an HTTP answer
===============  ===========================================================================================

No client of botocore is imported here: its service descriptions are read as the files they are.
"""

__all__ = ["answers", "complaints", "documents", "query", "rest", "routing", "schema", "serialise"]
