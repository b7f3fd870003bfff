# SPDX-License-Identifier: Apache-2.0
"""What is read of a cluster: the network of its node groups before its own."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.aws.install import Account, Choices, read_site


class PaperAccount(Account):
    """An account that answers from a table."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__("eu-west-1")
        self._answers = answers
        self.asked: list[dict[str, Any]] = []

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        self.asked.append({"operation": f"{service}:{operation}", **parameters})
        answer: dict[str, Any] = self._answers[operation]
        return answer

    def pages(self, service: str, operation: str, field: str, **parameters: Any) -> list[Any]:
        return list(self.call(service, operation, **parameters)[field])


def _answers(*, mode: str = "API", template: dict[str, Any] | None = None) -> dict[str, Any]:
    issuer = "oidc.eks.eu-west-1.amazonaws.com/id/AB"
    return {
        "DescribeCluster": {
            "cluster": {
                "arn": "arn:aws:eks:eu-west-1:111122223333:cluster/prod",
                "status": "ACTIVE",
                "endpoint": "https://x",
                "identity": {"oidc": {"issuer": f"https://{issuer}"}},
                "accessConfig": {"authenticationMode": mode},
                "resourcesVpcConfig": {"subnetIds": ["subnet-own"], "clusterSecurityGroupId": "sg-own"},
            }
        },
        "ListOpenIDConnectProviders": {
            "OpenIDConnectProviderList": [{"Arn": f"arn:aws:iam::111122223333:oidc-provider/{issuer}"}]
        },
        "ListNodegroups": {"nodegroups": ["system"]},
        "DescribeNodegroup": {"nodegroup": {"subnets": ["subnet-a", "subnet-b"], "launchTemplate": template}},
        "DescribeLaunchTemplateVersions": {
            "LaunchTemplateVersions": [
                {
                    "LaunchTemplateData": {
                        "SecurityGroupIds": ["sg-nodes"],
                        "NetworkInterfaces": [{"Groups": ["sg-interface"]}],
                    }
                }
            ]
        },
    }


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ({"id": "lt-1", "version": "3"}, {"LaunchTemplateId": "lt-1", "Versions": ["3"]}),
        ({"name": "nodes"}, {"LaunchTemplateName": "nodes", "Versions": ["$Default"]}),
    ],
)
def test_a_node_groups_launch_template_names_the_security_groups(
    template: dict[str, Any], asked: dict[str, Any]
) -> None:
    account = PaperAccount(_answers(template=template))

    site = read_site(account, Choices("prod"))

    assert site.subnets == ("subnet-a", "subnet-b")
    assert site.groups == ("sg-nodes", "sg-interface")
    (question,) = [each for each in account.asked if "Versions" in each]
    assert question == {"operation": "ec2:DescribeLaunchTemplateVersions", **asked}


def test_without_a_launch_template_the_clusters_own_group_is_used() -> None:
    assert read_site(PaperAccount(_answers()), Choices("prod")).groups == ("sg-own",)


@pytest.mark.parametrize(
    ("mode", "entries", "config_map"),
    [("API", True, False), ("API_AND_CONFIG_MAP", True, False), ("CONFIG_MAP", False, True)],
)
def test_nodes_are_let_in_by_what_the_cluster_heeds(mode: str, *, entries: bool, config_map: bool) -> None:
    site = read_site(PaperAccount(_answers(mode=mode)), Choices("prod"))

    assert (site.by_entries, site.by_config_map) == (entries, config_map)
