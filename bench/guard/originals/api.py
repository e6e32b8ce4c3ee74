"""Requests to an API server, each asked once, and what it said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3
import yaml

__all__ = ["Api", "said"]

_SECONDS = 40.0
_DENIED = "denied the request: "


class Api:
    """As its administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server, token = cluster["server"], config["users"][0]["user"]["token"]
        self._pool = urllib3.PoolManager(
            maxsize=20,
            ca_certs=cluster["certificate-authority"],
            headers={"Authorization": f"Bearer {token}"},
            timeout=_SECONDS,
            retries=False,
        )

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, dry_run: bool = False, labels: str = ""
    ) -> str:
        """ "" where it was done, else its code and words, as `429: 1 pod not ready in db-a`."""
        fields = {**({"dryRun": "All"} if dry_run else {}), **({"labelSelector": labels} if labels else {})}
        url = f"{self._server}{path}" + (f"?{_query(fields)}" if fields else "")
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = json.dumps(body).encode() if body is not None else None
        answer = self._pool.request(method, url, body=content, headers={**self._pool.headers, "Content-Type": kind})
        return said(answer.status, answer.data)

    def table(self, path: str) -> dict[str, Any]:
        """What `kubectl get` prints of an object, by column."""
        accept = {**self._pool.headers, "Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
        found = json.loads(self._pool.request("GET", f"{self._server}{path}", headers=accept).data)
        names = [each["name"] for each in found["columnDefinitions"]]
        return dict(zip(names, found["rows"][0]["cells"], strict=True))

    def deleted(self, pod: str, *, dry_run: bool = False, namespace: str = "shop") -> str:
        """What it said to a pod's deletion."""
        return self.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}", dry_run=dry_run)

    def evicted(self, pod: str, *, dry_run: bool = False) -> str:
        """The same of an eviction."""
        body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        return self.ask("POST", f"/api/v1/namespaces/shop/pods/{pod}/eviction", body, dry_run=dry_run)

    def scaled(self, name: str, replicas: int, *, subresource: str = "", dry_run: bool = False) -> str:
        """The same of a StatefulSet's scale, by the object or by `scale`."""
        path = f"/apis/apps/v1/namespaces/shop/statefulsets/{name}" + (f"/{subresource}" if subresource else "")
        return self.ask("PATCH", path, {"spec": {"replicas": replicas}}, dry_run=dry_run)


def said(status: int, body: bytes) -> str:
    """See Api.ask. Of a webhook's denial, its words alone."""
    if status < 400:
        return ""
    try:
        words = str(json.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        words = body.decode(errors="replace")
    return f"{status}: {words.partition(_DENIED)[2] or words}"


def _query(fields: Mapping[str, str]) -> str:
    return "&".join(f"{name}={value.replace('=', '%3D')}" for name, value in fields.items())
