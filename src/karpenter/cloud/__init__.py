# SPDX-License-Identifier: Apache-2.0
"""What a cloud must do for us, said without naming one.

``protocol`` holds the questions and orders that a controller may put to a cloud and the values that come back;
``errors`` the failures that a caller acts on. ``aws`` is the one cloud there is. Nothing above ``aws`` knows an
instance id from a launch template, and nothing here speaks to Kubernetes: claims and node classes come in as
arguments, and what became of them goes back as values.
"""

__all__ = ["aws", "errors", "protocol"]
