"""What a chart has in its folder crds/ is in the cluster as well: Helm installs it once, and upgrades none of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.manifest import Manifest, objects_in
from upgrader.ports import Kind, Kube
from upgrader.preflight.context import PreflightContext

__all__ = ["check_chart_definitions"]

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)


def check_chart_definitions(context: PreflightContext) -> Iterator[Finding]:
    """Each definition of a chart whose release the run changes; one that the release brings for the first time is
    installed with it.
    """
    for release in context.changing:
        items = objects_in(context.helm.definitions(release.spec.chart)).values()
        stale = [text for item in items if (text := _stale(context.kube, item, installs=release.action == "install"))]
        if stale:
            yield Finding(
                "custom-resources.not-upgraded",
                "warning",
                f"release {release.name}: Helm doesn't upgrade definitions of its chart: {first_few(stale)}",
                "Helm installs definitions in a chart's folder crds/ only when it installs the release. In the "
                "cluster, these are missing or differ, and the new version may need them.",
                "Read the chart's notes on upgrades, then apply the definitions before the run: helm show crds "
                f"{release.spec.chart} | kubectl apply --server-side --force-conflicts -f -",
            )


def _stale(kube: Kube, item: Manifest, *, installs: bool) -> str:
    """The definition's name if the cluster has it otherwise, or not at all; "" for none. Raises ApiError.

    A dry run of the change fills in what the API server does, and keeps what others have added, such as a CA.
    """
    name = str((item.get("metadata") or {}).get("name"))
    found = kube.get(_DEFINITIONS, name)
    if found is None:
        return "" if installs else f"{name} (missing)"
    try:
        written = kube.dry_patch(_DEFINITIONS, name, {"spec": _without_ca(item.get("spec"))})
    except ApiUnavailable:
        raise
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return f"{name} (the API refuses the chart's: {error.message})"
    return name if written["spec"] != found["spec"] else ""


def _without_ca(spec: Any) -> Any:
    """What a chart has as its conversion webhook's CA is a placeholder: an operator, or cert-manager, writes it."""
    spec = deepcopy(spec)
    with suppress(AttributeError, KeyError, TypeError):  # it has no conversion webhook
        spec["conversion"]["webhook"]["clientConfig"].pop("caBundle", None)
    return spec
