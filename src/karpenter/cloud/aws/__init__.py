# SPDX-License-Identifier: Apache-2.0
"""AWS: the only place that knows it, and behind ``api`` the only one that imports boto.

====================  ======================================================================================
``api``               the one seam: call by name, pages, errors, retries; ``calls`` lists what may be called
``codes``             every error code and what it means
``ratelimit``         our request limits, below those of EC2
``batching``          many small requests folded into one
``instancetypes``     what each type has and costs for a node class; ``pricing``, ``unavailable``
``amis``              which images a node class means
``userdata``          what an instance is told at its first boot; ``blockdevices``
``choice``            which offerings a launch names
``blueprints``        what each of them is launched with
``launchtemplates``   launch templates: what is in them, made once, removed when unused
``addresses``         which subnet of each zone a launch goes into
``fleet``             one CreateFleet request and what its answer means
``journal``           launches written down before they happen
``launching``         one instance for each claim, and never two; ``lots``: claims that share a launch
``instances``         instances: found, looked up in batches, terminated, tagged
``machines``          an instance as the node that it is or will be
``provider``          the ``CloudProvider`` made of all these
``discovery``         what selectors find: ``subnets``, ``securitygroups``, ``reservations``, ``placementgroups``
``profiles``          instance profiles for a node class's role
``zonalshift``        zones that are shifted away
``nodeclass``         the status of a node class, and whether it can be launched from
``drift``             whether an instance still equals its node class
``interruption``      what AWS says happens to instances, by two sources
``garbage``           what was left behind
====================  ======================================================================================

Names are imported from the modules. Each takes an ``Aws`` as argument.
"""
