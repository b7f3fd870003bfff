# SPDX-License-Identifier: Apache-2.0
"""Who a bearer token stands for, read from a file in the form that kube-apiserver takes: ``token,user,uid,"groups"``.

Uid and groups may be left out. A line that says less, or a token that comes twice, is refused with its number.
"""

from __future__ import annotations

import csv
from pathlib import Path

from karpenter.errors import KarpenterError
from karpenter.sandbox.kube.engine.calls import User

__all__ = ["TokenFileError", "read_tokens"]


class TokenFileError(KarpenterError):
    """A token file that cannot be used."""


def read_tokens(path: Path) -> dict[str, User]:
    """Gives the users of a file by their tokens.

    Raises:
        TokenFileError: the file or a line of it cannot be read.
    """
    hint = 'each line is token,user,uid,"group1,group2"; uid and groups may be left out'
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path} cannot be read: {error}", hint=hint) from error
    users: dict[str, User] = {}
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise TokenFileError(f"{path}, line {number}: there is no token or no user", hint=hint)
        if cells[0] in users:
            raise TokenFileError(f"{path}, line {number}: this token was given before", hint=hint)
        groups = tuple(each.strip() for each in cells[3].split(",") if each.strip()) if len(cells) > 3 else ()
        uid = cells[2] if len(cells) > 2 else ""
        users[cells[0]] = User(cells[1], (*groups, "system:authenticated"), uid)
    if not users:
        raise TokenFileError(f"{path} holds no token", hint=hint)
    return users
