# SPDX-License-Identifier: Apache-2.0
"""The public price list of EC2: GetProducts with filters and pages, from the world's one price table.

Lists the on-demand products of Linux without extra software in the model's region: shared tenancy for virtual
machines, dedicated for bare metal. Prices follow the price table over model time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from karpenter import facts
from karpenter.sandbox.ec2.contract import Handler, ModelError, Request
from karpenter.sandbox.ec2.services.paging import page

__all__ = ["handlers"]

_SERVICE = "AmazonEC2"


def get_products(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the products that match all filters, a hundred at a time."""
    if parameters["ServiceCode"] != _SERVICE:
        raise ModelError(
            "InvalidParameterException", f"The service code {parameters['ServiceCode']} is not valid."
        )
    wanted: dict[str, str] = {}
    for each in parameters.get("Filters", []):
        if each["Type"] != "TERM_MATCH":
            raise ModelError(
                "InvalidParameterException", f"The model matches by TERM_MATCH only, not {each['Type']}."
            )
        if wanted.setdefault(each["Field"], each["Value"]) != each["Value"]:
            return {"FormatVersion": "aws_v1", "PriceList": []}
    found = [product for product in _products(request) if _matches(product, wanted)]
    shown, token = page(
        found,
        lambda product: str(product["instanceType"]),
        min(parameters.get("MaxResults", 100), 100),
        parameters.get("NextToken"),
        refused="InvalidNextTokenException",
    )
    return {
        "FormatVersion": "aws_v1",
        "PriceList": [_listed(request, product) for product in shown],
        "NextToken": token,
    }


def describe_services(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Says that EC2 is the one service with prices here."""
    del request, parameters
    names = ["instanceType", "regionCode", "operatingSystem", "tenancy", "preInstalledSw", "capacitystatus"]
    return {"FormatVersion": "aws_v1", "Services": [{"ServiceCode": _SERVICE, "AttributeNames": names}]}


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {"GetProducts": get_products, "DescribeServices": describe_services}


def _products(request: Request) -> Iterator[dict[str, Any]]:
    prices = request.world.prices
    for name, known in facts.instance_types().items():
        price = prices.on_demand(name, request.now) if name in prices.offered else None
        if price is None:
            continue
        yield {
            "price": price,
            "productFamily": "Compute Instance (bare metal)" if known.bare_metal else "Compute Instance",
            "instanceType": name,
            "vcpu": str(known.vcpus),
            "memory": f"{known.memory_mib / 1024:g} GiB",
            "tenancy": "Dedicated" if known.bare_metal else "Shared",
            **_fixed(request.world.region),
        }


def _fixed(region: str) -> Mapping[str, str]:
    return {
        "serviceCode": _SERVICE,
        "servicecode": _SERVICE,
        "regionCode": region,
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "licenseModel": "No License required",
    }


def _matches(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return all(str(product.get(name, "")).lower() == value.lower() for name, value in wanted.items())


def _listed(request: Request, product: Mapping[str, Any]) -> str:
    name, region = product["instanceType"], request.world.region
    sku = hashlib.sha256(f"{region}{name}".encode()).hexdigest()[:16].upper()
    offer, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    attributes = {
        key: value for key, value in product.items() if key not in {"price", "productFamily", "serviceCode"}
    }
    currency = "CNY" if region.startswith("cn-") else "USD"
    dimension = {
        "unit": "Hrs",
        "endRange": "Inf",
        "description": f"${product['price']:.10g} per On Demand Linux {name} Instance Hour",
        "appliesTo": [],
        "rateCode": rate,
        "beginRange": "0",
        "pricePerUnit": {currency: f"{product['price']:.10f}"},
    }
    terms = {
        offer: {
            "priceDimensions": {rate: dimension},
            "sku": sku,
            "effectiveDate": "2026-01-01T00:00:00Z",
            "offerTermCode": "JRTCKXETXF",
            "termAttributes": {},
        }
    }
    return json.dumps(
        {
            "product": {"productFamily": product["productFamily"], "attributes": attributes, "sku": sku},
            "serviceCode": _SERVICE,
            "terms": {"OnDemand": terms},
            "version": "20260101000000",
            "publicationDate": "2026-01-01T00:00:00Z",
        }
    )
