# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API in memory, over HTTP on loopback, for the real kubectl and for our own client.

==============  ==============================================================================================
``kinds``       what objects look like: shapes, defaults, rules, by data
``storage``     the objects, their revisions and watches; selectors; state across restarts
``patching``    the four kinds of patch, and who owns which field
``engine``      the verbs: create, update, patch, delete, list, subresources, admission, definitions
``serving``     HTTP: routes, discovery, OpenAPI, tables, watches, tokens, the audit log
``kubeconfig``  how clients find it
==============  ==============================================================================================

Behaviour and words are those of kube-apiserver 1.34; what differs is listed in docs/reference/sandbox-differences.md.
There are no controllers in it: a Deployment that is made stays as it is until someone acts on it.
"""

__all__ = ["engine", "errors", "kinds", "kubeconfig", "patching", "serving", "storage"]
