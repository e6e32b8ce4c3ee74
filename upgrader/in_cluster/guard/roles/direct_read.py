"""Reads StatefulSets and the pods that they own from the API, not from a cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from upgrader.in_cluster.guard.core.workloads import Pod, pod
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["pods_of", "selector_query", "stateful_sets"]

_PAGE = 500


async def stateful_sets(api: Api, namespace: str, labels: str) -> list[dict[str, Any]]:
    """The objects that match a query's labelSelector, as the API has them. Raises ApiAway, ApiRefused."""
    return await _all(api, STATEFUL_SETS, namespace, labels)


async def pods_of(api: Api, namespace: str, sets: list[dict[str, Any]]) -> list[Pod]:
    """All pods that these sets own, and possibly others, each once. Raises ApiAway, ApiRefused."""
    # A pod of a set matches its selector: the controller releases a pod that doesn't.
    lists = await asyncio.gather(
        *(_all(api, PODS, namespace, selector_query(item["spec"]["selector"])) for item in sets)
    )
    found = {each.uid: each for items in lists for each in map(pod, items)}
    return list(found.values())


async def _all(api: Api, resource: Resource, namespace: str, labels: str) -> list[dict[str, Any]]:
    found, token = list[dict[str, Any]](), ""
    while True:
        items, _, token = await api.page(resource, namespace, {"labelSelector": labels}, limit=_PAGE, token=token)
        found += items
        if not token:
            return found


def selector_query(selector: Object) -> str:
    """A label selector of the API as a query's labelSelector."""
    labels: Mapping[str, str] = selector.get("matchLabels") or {}
    terms = [f"{key}={value}" for key, value in labels.items()]
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each["key"], each["operator"], ",".join(each.get("values") or ())
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(terms)
