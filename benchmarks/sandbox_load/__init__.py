# SPDX-License-Identifier: Apache-2.0
"""The whole sandbox under load, with the controller: `python -m benchmarks.sandbox_load`.

==============  ===================================================================================================
``programs``    API, controllers and scheduler, kubelets, EC2 model and controller as programs, and what they cost
``counting``    how far pods and nodes are, from watches of our own
``watching``    many watchers, some of them slow, each of which must see every event once and in order
==============  ===================================================================================================
"""
