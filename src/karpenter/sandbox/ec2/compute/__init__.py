# SPDX-License-Identifier: Apache-2.0
"""EC2's own actions, as plain functions over one store.

==================  ========================================================================================
``ec2``             ``Ec2``, the whole as one object, and the table of its actions
``store``           every record by id, and the indexes
``records``         what an account holds: networks, images, templates, instances and what hangs on them
``seam``            what is asked of the rest of the model: time, events, instance profiles
``types``           instance types and their offers, from the catalogue of facts
``prices``          list and spot prices over model time
``network``         networks, subnets, security groups, zones
``addresses``       addresses and host names
``localzones``      Local Zones and the way to opt in to them
``images``          machine images
``templates``       launch templates
``launching``       launch parameters checked and made into a plan
``fleet``           CreateFleet: which pools give how many instances, and why the others did not
``running``         RunInstances
``instances``       the life of an instance
``describing``      how instances are seen from outside
``attributes``      one attribute of one instance
``ending``          how instances are ended from outside
``status``          status checks and announced events
``attachments``     volumes, network interfaces, spot requests
``capacity``        pools, scripted errors, quotas, failures
``reservations``    capacity reservations
``allocations``     interruptible capacity reservations
``placement``       placement groups
``tags``            tags on anything
``tokens``          ClientToken: the same request told twice is done once
``filters``         filters and pages of every Describe call
``listing``         the common part of the Describe calls
``settings``        the dials: delays, lags, tokens
``timers``          what is going to happen
``changes``         all of this changed by data, from a scenario file or an administrator
``fields``          typed fields of such data
``interruptions``   what AWS does to running instances
``userdata``        what user data does to its machine
``nodeside``        the machines as whoever plays the kubelets sees them
``overview``        the account as one readable document
``ids``             ids and repeatable chance
==================  ========================================================================================
"""

from karpenter.sandbox.ec2.compute.ec2 import Ec2, handlers

__all__ = ["Ec2", "handlers"]
