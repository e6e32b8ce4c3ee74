"""Whether a webhook answers, asked as the API server asks it: by server-side dry runs.

The webhook itself is off. So another configuration calls the same backend, for ConfigMaps with a label that no other
object has, and only while it is asked. Whether the API server knows it is seen by a second webhook in it, which can't
be reached: once that one refuses, the first one is asked, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from upgrader.errors import ApiError
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.recover.webhook_bypass.configurations import KINDS, Webhook
from upgrader.wait_and_retry import wait_until

__all__ = ["why_silent"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_LABEL = "guard.upgrader.io/probe"
_KNOWN_SECONDS = 30.0
_SERVERS = 3
"""Each time by a new connection, which may lead to another API server."""
_CALL_FAILED = "failed calling webhook"


def why_silent(kube: Kube, clock: Clock, webhook: Webhook, note: Callable[[str], None] = lambda _: None) -> str:
    """Why a webhook doesn't answer; "" when it does, whatever it answers. Raises ApiError where that can't be seen.

    `note` is told for what it waits; not needed where that is told already.
    """
    with _probing(kube, webhook) as (namespace, answers, known):
        for _ in range(_SERVERS):
            kube.reconnect()
            if missing := wait_until(
                clock,
                lambda: "" if _says(kube, namespace, known) else "it admits a request that it must deny",
                seconds=_KNOWN_SECONDS,
                what=f"the API server to call webhook {webhook} in a dry run",
                note=note,
            ):
                return f"the API server did not call it within {_KNOWN_SECONDS:.0f} s: {missing}"
            if said := _says(kube, namespace, answers):
                return said
    return ""


def _says(kube: Kube, namespace: str, mark: str) -> str:
    """What the API server says of a webhook that it can't call; "" where it could."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": mark, "namespace": namespace, "labels": {_LABEL: mark}},
    }
    try:
        kube.create(_CONFIG_MAPS, manifest, namespace, dry_run=True)
    except ApiError as error:
        if _CALL_FAILED in error.message:
            return error.message
        if f'"{_name(mark)}" denied the request' not in error.message:
            raise
    return ""


@contextmanager
def _probing(kube: Kube, webhook: Webhook) -> Iterator[tuple[str, str, str]]:
    """(namespace, a label for which the backend is called, a label for which nothing answers), until the end of the
    block.
    """
    resource, run = KINDS[webhook.kind], uuid.uuid4().hex[:8]
    answers, known = f"answers-{run}", f"known-{run}"
    client = dict(webhook.content["clientConfig"])
    namespace = (client.get("service") or {}).get("namespace", "default")
    for left in kube.list(resource, labels=_LABEL):  # of a process that was killed
        kube.delete(resource, left["metadata"]["name"])
    name = f"guard-probe-{run}"
    manifest = {
        "apiVersion": resource.api_version,
        "kind": webhook.kind,
        "metadata": {"name": name, "labels": {_LABEL: "true"}},
        "webhooks": [
            _webhook(answers, client, webhook.content.get("timeoutSeconds", 10), namespace),
            _webhook(known, {"url": "https://127.0.0.1:1"}, 1, namespace),
        ],
    }
    kube.create(resource, manifest)
    try:
        yield namespace, answers, known
    finally:
        kube.delete(resource, name)


def _webhook(mark: str, client: KubeObject, seconds: int, namespace: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "name": _name(mark),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": {_LABEL: mark}},
        "rules": [{**rule, "scope": "Namespaced"}],
        "sideEffects": "None",
        "timeoutSeconds": seconds,
    }


def _name(mark: str) -> str:
    return f"{mark}.probe.guard.upgrader.io"
