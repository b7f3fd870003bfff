# SPDX-License-Identifier: Apache-2.0
"""Pages of a list: where the next one starts is written into an opaque token, by the last key that was shown.

A token survives changes of the list between two calls: it names a key, not a place.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import TypeVar

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["page"]

_T = TypeVar("_T")


def page(
    items: Iterable[_T], key: Callable[[_T], str], size: int, token: str | None, *, refused: str
) -> tuple[list[_T], str | None]:
    """Gives one page in the order of the keys, and the token of the next one or None.

    Raises:
        ModelError: The token is not one of ours; ``refused`` is the service's code for that.
    """
    ordered = sorted(items, key=key)
    if token:
        try:
            last = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
        except ValueError:
            raise ModelError(refused, f"The token {token} is not valid.") from None
        ordered = [item for item in ordered if key(item) > last]
    shown = ordered[:size]
    if len(ordered) <= size:
        return shown, None
    return shown, base64.urlsafe_b64encode(key(shown[-1]).encode()).decode()
