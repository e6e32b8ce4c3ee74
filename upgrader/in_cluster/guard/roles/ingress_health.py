"""The health check of a load balancer on each node: whether all of the node's pods are ready, and no update of them is
due.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from upgrader.in_cluster.guard.core.ingress_objects import NODE_LABEL, deployment_name, node_value
from upgrader.in_cluster.guard.core.ingress_rollout import is_healthy, node_deployment
from upgrader.in_cluster.guard.roles.ingress_cluster import DEPLOYMENTS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["IngressHealth"]


class IngressHealth:
    """For one IngressDaemonSet on one node.

    While the API server can't be reached, it answers from its last known state: the replacement of an API server
    mustn't take all nodes out of the load balancer. Before it has any state, it answers 503.
    """

    def __init__(self, api: Api, namespace: str, name: str, node: str, due: str) -> None:
        """`due`: the annotation of the node's Deployment that marks a due update."""
        self._key, self._due = (namespace, deployment_name(name, node)), due
        self.informer = Informer(api, DEPLOYMENTS, namespace, labels=f"{NODE_LABEL}={node_value(node)}", keep=_kept)

    def why_not(self) -> str:
        """Why the node should get no traffic; "" if it should get some."""
        if not self.informer.synced.is_set():
            return "nothing is known of the node's pods yet"
        found = self.informer.objects.get(self._key)
        if found is None:
            return f"there is no Deployment {'/'.join(self._key)}"
        its = node_deployment(found)
        if is_healthy(its, self._due):
            return ""
        if self._due in its.annotations:
            return "an update of the node's pods is due"
        return f"{its.ready} of {max(its.replicas, its.pods)} pods of the node are ready"

    def app(self) -> web.Application:
        """200 or 503 on every path, with the reason."""

        async def answer(_: web.Request) -> web.Response:
            reason = self.why_not()
            return web.Response(text=f"{reason or 'ready'}\n", status=503 if reason else 200)

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        return app


def _kept(item: dict[str, Any]) -> Object:
    keys = ("namespace", "name", "resourceVersion", "generation", "annotations")
    meta = {key: item["metadata"][key] for key in keys if key in item["metadata"]}
    return {"metadata": meta, "spec": {"replicas": item["spec"].get("replicas")}, "status": item.get("status") or {}}
