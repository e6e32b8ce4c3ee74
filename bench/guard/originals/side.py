"""One of the two that are compared: its programs, its own webhook configurations, and an API server of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.guard.originals.api import Api
from bench.guard.originals.programs import Certificate, Originals, Upstream
from bench.guard.programs import Guard, Replica
from bench.guard.site import Site, chart_definitions, chart_objects, site
from upgrader.ports import Kind

__all__ = ["Side", "guards", "originals"]

_NAMESPACE = "rollout-operator-development"
_ZONES = {
    "rollouts": {"enabled": True, "namespaces": ["shop"]},
    "zoneBudget": {"enabled": True, "namespaces": ["shop"]},
}
_VALUES = {**_ZONES, "downscale": {"enabled": True}, "protector": {"enabled": True, "workerCellId": "one"}}
_KINDS = {
    each: Kind("admissionregistration.k8s.io/v1", f"{each.lower()}s", namespaced=False)
    for each in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}


@dataclass(frozen=True)
class Side:
    """It runs until the end of the block that made it."""

    title: str
    site: Site
    api: Api
    tls: Certificate
    configurations: tuple[Mapping[str, Any], ...]
    """Its own, as they are installed."""

    @contextmanager
    def asked(self, replica: Replica, path: str) -> Iterator[None]:
        """Its own webhooks below this path of it are asked of the replica, until the end of the block.

        `path`: of a webhook's Service, as `/admission/no-downscale`.
        """
        bundle = base64.b64encode(self.tls.certificate.read_bytes()).decode()
        made = []
        try:
            for found in self.configurations:
                hooks = [
                    {**hook, "clientConfig": {"url": replica.url(_path(hook)), "caBundle": bundle}}
                    for hook in found["webhooks"]
                    if _path(hook).startswith(path)
                ]
                if hooks:
                    kind = _KINDS[found["kind"]]
                    self.site.kube.create(kind, {**found, "webhooks": hooks})
                    made.append((kind, found["metadata"]["name"]))
            assert made, f"{self.title} has no webhook {path}"
            yield
        finally:
            for kind, name in made:
                self.site.kube.delete(kind, name)


def _path(hook: Mapping[str, Any]) -> str:
    return str(hook["clientConfig"]["service"]["path"])


@contextmanager
def guards(folder: Path, tls: Certificate, *, counts: bool = False) -> Iterator[Side]:
    """guard, by its chart. `counts`: with its aggregator."""
    found = [each for each in chart_objects(_VALUES) if each["kind"] in _KINDS]
    with site(folder, Guard(tls.flags(), counts=counts), chart_definitions(_VALUES)) as made:
        yield Side("guard", made, Api(made.kubeconfig), tls, tuple(found))


@contextmanager
def originals(folder: Path, tls: Certificate, upstream: Upstream) -> Iterator[Side]:
    """Theirs: rollout-operator's `development/`, with the namespace `shop`, and podseidon's chart."""
    texts = [each.read_text() for each in sorted((upstream.rollout_operator / "development").glob("*.yaml"))]
    found = [each for text in texts for each in yaml.safe_load_all(text.replace(_NAMESPACE, "shop")) if each]
    values = {"release": {"workerCellId": "one"}, "webhook": {"pathPrefix": "/protector"}}
    found += chart_objects(values, upstream.podseidon / "chart")
    definitions = [each for each in found if each["kind"] == "CustomResourceDefinition"]
    configurations = [each for each in found if each["kind"] in _KINDS]
    with site(folder, Originals(upstream, tls), definitions) as made:
        yield Side("originals", made, Api(made.kubeconfig), tls, tuple(configurations))
