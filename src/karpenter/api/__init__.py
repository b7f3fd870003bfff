# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects we read and write: built-in kinds, our own kinds, the old kinds, and their schemas.

``core`` holds the built-in kinds; ``nodepool``, ``nodeclaim``, ``ec2nodeclass``, ``nodeoverlay`` and
``capacitybuffer`` our own; ``legacy`` what people still have in their repositories; ``crds`` the definitions made
from the types; ``schema`` the rules that the API server applies to them, in process.
"""
