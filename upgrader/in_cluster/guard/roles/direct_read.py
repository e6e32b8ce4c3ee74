"""Reads StatefulSets and the pods that they own from the API, not from a cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upgrader.in_cluster.guard.core.workloads import Pod, pod
from upgrader.in_cluster.guard.core.zone_budget import READY_TIME
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["pods_of", "selector_query", "stateful_sets"]


async def stateful_sets(api: Api, namespace: str, labels: str) -> list[dict[str, Any]]:
    """The objects that match a query's labelSelector, as the API has them. Raises ApiAway, ApiRefused."""
    found, _ = await everything(api, STATEFUL_SETS, namespace, {"labelSelector": labels}, _without_template)
    return found


async def pods_of(api: Api, namespace: str, sets: list[dict[str, Any]]) -> list[Pod]:
    """All pods that these sets own, and possibly others, each once. Raises ApiAway, ApiRefused."""
    # A pod of a set matches its selector: the controller releases a pod that doesn't.
    lists = await asyncio.gather(
        *(
            everything(api, PODS, namespace, {"labelSelector": selector_query(item["spec"]["selector"])}, _kept_pod)
            for item in sets
        )
    )
    found = {each.uid: each for pods, _ in lists for each in pods}
    return list(found.values())


def _without_template(item: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    spec = {key: value for key, value in item["spec"].items() if key != "template"}
    return {**item, "metadata": meta, "spec": spec}


def _kept_pod(item: dict[str, Any]) -> Pod:
    found = pod(item)
    ready = {READY_TIME: found.annotations[READY_TIME]} if READY_TIME in found.annotations else {}
    return replace(found, annotations=ready)


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
