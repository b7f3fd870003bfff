# SPDX-License-Identifier: Apache-2.0
"""HTTP: routes, discovery, OpenAPI, tables, watches, tokens, the audit log."""

__all__ = [
    "cells",
    "discovery",
    "dispatch",
    "forms",
    "openapi",
    "podcells",
    "server",
    "tables",
    "tokens",
    "watches",
]
