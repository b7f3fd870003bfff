# SPDX-License-Identifier: Apache-2.0
"""HTTP: routes, discovery, OpenAPI, tables, watches, tokens, what kubelets answer, the audit log."""

__all__ = [
    "cells",
    "discovery",
    "dispatch",
    "forms",
    "forwarding",
    "openapi",
    "podcells",
    "relays",
    "server",
    "spdy",
    "tables",
    "tokens",
    "watches",
]
