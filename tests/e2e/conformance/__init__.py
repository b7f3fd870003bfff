# SPDX-License-Identifier: Apache-2.0
"""The sandbox's Kubernetes API beside the real one: the same requests, and the answers compared.

==================  ========================================================================================
``requests``        one request, with references to earlier answers
``cases``           the requests, by subject
``sending``         sends them to a server, in order
``normalising``     takes out of an answer what must differ: times, uids, versions, random names
``comparing``       says what differs, and which differences are known
``recording``       the real server's answers in a file, for where there is no Go
==================  ========================================================================================

``python -m tests.e2e.conformance`` compares and prints; ``--record`` also rewrites the file.
"""

from __future__ import annotations

__all__ = ["cases", "comparing", "normalising", "recording", "requests", "sending"]
