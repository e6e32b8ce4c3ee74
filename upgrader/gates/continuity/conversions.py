"""Whether custom resources can be read in versions in which they aren't stored: a webhook converts them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import unanswered
from upgrader.gates.continuity.restarts import WITHOUT_PODS_SECONDS, Lost, RestartWatch
from upgrader.gates.ready_endpoints import has_no_pods, has_ready_endpoint
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, VerdictKind, pending
from upgrader.ports import LARGE_AT_ONCE, Kind, Kube, KubeObject

__all__ = ["ConversionWatch", "lost_conversion", "read_conversions"]

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_AT_MOST = 4
_REPAIR = (
    "Check that the conversion webhook runs, and that kube-apiserver reaches it: whether the controllers resolve its "
    "name, and whether a proxy is in between."
)
_NAMED = "conversion webhook"
"""In each error of kube-apiserver that a webhook causes before the request's time is over."""
_SOON = "timeout=2s"
"""A webhook may take half a minute to answer nothing."""


def read_conversions(kube: Kube) -> tuple[str, ...]:
    """The path of an object that each of the first webhooks converts. Raises ApiUnavailable or ApiError."""
    found: dict[str, str] = {}
    for definition in kube.each(_DEFINITIONS, at_once=LARGE_AT_ONCE):
        for webhook, resource in _converted(definition):
            if webhook not in found and len(found) < _AT_MOST and (path := _first(kube, resource)):
                found[webhook] = path
    return tuple(found.values())


def lost_conversion(kube: Kube, baseline: Baseline) -> Lost | None:
    """The first object of the baseline that can't be read now, and why; None where all can, or are gone."""
    for path in baseline.conversions:
        try:
            kube.raw(f"{path}?{_SOON}")
        except ApiError as error:
            # 404: it was deleted, or its definition, or serves this version no longer.
            if error.status != HTTPStatus.NOT_FOUND:
                return Lost(path, f"reading {path} worked before this run and fails now: {error.message}", _REPAIR)
    return None


class ConversionWatch:
    """Reads the paths of the baseline again; what fails for long is broken, as a webhook may just restart."""

    def __init__(self, failing: RestartWatch) -> None:
        self._failing = failing

    def check(self, kube: Kube, baseline: Baseline, server: str) -> Verdict | None:
        """None when each path of the baseline can be read at this instance, or is gone. To be asked behind questions
        that the instance has answered.
        """
        verdicts = [verdict for path in baseline.conversions if (verdict := self._of(kube, path, server))]
        certain = (verdict for verdict in verdicts if verdict.kind is VerdictKind.BROKEN)
        return next(certain, verdicts[0] if verdicts else None)

    def skip(self) -> None:
        """Other questions weren't answered, so that nothing was read in this round."""
        self._failing.skip()

    def _of(self, kube: Kube, path: str, server: str) -> Verdict | None:
        try:
            kube.raw(f"{path}?{_SOON}", server=server)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                return self._failed(kube, path, server, error)
        self._failing.works(path, server)
        return None

    def _failed(self, kube: Kube, path: str, server: str, error: ApiError) -> Verdict:
        lost = _unconverted(path, error)
        away = unanswered(path, error) if isinstance(error, ApiUnavailable) else None
        try:
            if away and _NAMED not in error.message:
                _check_instance(kube, path, server, error)
            service = _not_ready(kube, path)
        except ApiError as unknown:
            # An API that is overloaded, or away, says nothing of a webhook.
            self._failing.works(path, server)
            return away or unanswered(path, unknown)
        if service and has_no_pods(kube, *service.split("/")):
            gone = replace(lost, reason=f"{lost.reason}; Service {service} has no pods")
            return self._failing.fails(gone, server, seconds=WITHOUT_PODS_SECONDS)
        if service:
            self._failing.works(path, server)
            return pending(f"{lost.reason}; Service {service} has no ready endpoint", remedy=lost.remedy)
        return self._failing.fails(lost, server, away)


def _check_instance(kube: Kube, path: str, server: str, error: ApiError) -> None:
    """Raise `error` unless it is that of a webhook: the time is over, but not for what no webhook converts.

    kube-apiserver doesn't name a webhook that it waited for.
    """
    if error.status != HTTPStatus.GATEWAY_TIMEOUT:
        raise error
    kube.raw(f"/apis/{_DEFINITIONS.api_version}/{_DEFINITIONS.plural}/{_definition(path)}?{_SOON}", server=server)


def _not_ready(kube: Kube, path: str) -> str:
    """The Service of the webhook, if it has pods and none is Ready; "" for another one, or for a URL."""
    spec = (kube.get(_DEFINITIONS, _definition(path)) or {}).get("spec") or {}
    service = _client(spec).get("service") or {}
    if not service or has_ready_endpoint(kube, service["namespace"], service["name"]) is not False:
        return ""
    return f"{service['namespace']}/{service['name']}"


def _definition(path: str) -> str:
    """The name of the CustomResourceDefinition of the object at this path."""
    _, _, group, *_, plural, _ = path.split("/")
    return f"{plural}.{group}"


def _unconverted(path: str, error: ApiError) -> Lost:
    return Lost(
        path,
        f"reading {path} worked before this run and fails now, because objects stored in another version can't be "
        f"converted: {error.message}",
        _REPAIR,
    )


def _converted(definition: KubeObject) -> Iterator[tuple[str, tuple[str, str]]]:
    """Who converts, as text that tells one from another; and group and version, with the resource's name, of each
    version that isn't stored.
    """
    spec = definition["spec"]
    if (spec.get("conversion") or {}).get("strategy") != "Webhook":
        return
    client = _client(spec)
    webhook = json.dumps([client.get("url"), client.get("service")], sort_keys=True)
    for version in spec.get("versions") or ():
        if version.get("served") and not version.get("storage"):
            yield webhook, (f"/apis/{spec['group']}/{version['name']}", spec["names"]["plural"])


def _client(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """How kube-apiserver reaches the webhook of a definition."""
    return ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}


def _first(kube: Kube, resource: tuple[str, str]) -> str:
    """The path of the first object, as a list comes from a cache, which has been converted before; "" for none."""
    version, plural = resource
    try:
        items = json.loads(kube.raw(f"{version}/{plural}?limit=1&{_SOON}")).get("items")
        if not items:
            return ""
        meta = items[0]["metadata"]
        within = f"/namespaces/{meta['namespace']}" if meta.get("namespace") else ""
        path = f"{version}{within}/{plural}/{meta['name']}"
        kube.raw(f"{path}?{_SOON}")
    except ApiUnavailable:
        raise
    except ApiError:
        return ""
    return path
