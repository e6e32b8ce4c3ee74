"""Whether custom resources can be read in versions in which they aren't stored: a webhook converts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import unanswered
from upgrader.gates.continuity.restarts import Lost, RestartWatch
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.ports import LARGE_AT_ONCE, Kind, Kube, KubeObject

__all__ = ["ConversionWatch", "lost_conversion", "read_conversions"]

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_AT_MOST = 4
_REPAIR = (
    "Check that the conversion webhook runs, and that kube-apiserver reaches it: whether the controllers resolve its "
    "name, and whether a proxy is in between."
)
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
                return Lost(f"reading {path} worked before this run and fails now: {error.message}", _REPAIR)
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
        at = f"{path} {server}"
        try:
            kube.raw(f"{path}?{_SOON}", server=server)
        except ApiUnavailable as error:
            # One that isn't reached costs the whole timeout, which looks as if the API were away.
            return self._failing.fails(at, _unconverted(path, error), unanswered(path, error))
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                return self._failing.fails(at, _unconverted(path, error))
        self._failing.works(at)
        return None


def _unconverted(path: str, error: ApiError) -> Lost:
    return Lost(
        f"reading {path} worked before this run and fails now, as what is stored in another version can't be "
        f"converted: {error.message}",
        _REPAIR,
    )


def _converted(definition: KubeObject) -> Iterator[tuple[str, tuple[str, str]]]:
    """Who converts, as text that tells one from another; and group and version, with the resource's name, of each
    version that isn't stored.
    """
    spec = definition["spec"]
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    webhook = json.dumps([client.get("url"), client.get("service")], sort_keys=True)
    for version in spec.get("versions") or ():
        if version.get("served") and not version.get("storage"):
            yield webhook, (f"/apis/{spec['group']}/{version['name']}", spec["names"]["plural"])


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
