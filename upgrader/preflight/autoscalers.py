"""No release resets a number of replicas that an autoscaler has set."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.manifest import objects_in
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.context import DEPLOYMENTS, PreflightContext

__all__ = ["check_autoscalers"]

_SCALED = {"Deployment": DEPLOYMENTS, "StatefulSet": Kind("apps/v1", "statefulsets")}
_HELM = "helm"
"""The field manager of Helm's server-side apply; that of `kubectl scale` and of autoscalers has another name."""


def check_autoscalers(context: PreflightContext) -> Iterator[Finding]:
    """Each workload whose number of pods a release that changes sets, while something else has set it since."""
    for release in context.changing:
        for key, manifest in objects_in(release.after).items():
            kind, meta = _SCALED.get(manifest["kind"]), manifest["metadata"]
            if kind is None or not meta.get("namespace") or "replicas" not in (manifest.get("spec") or {}):
                continue
            live = context.kube.get(kind, meta["name"], meta["namespace"])
            wanted = manifest["spec"]["replicas"]
            owner = _other_owner(live) if live else ""
            if live and owner and live["spec"].get("replicas") != wanted:
                yield Finding(
                    "autoscalers.reset",
                    "warning",
                    f"{key} has {live['spec'].get('replicas')} replicas, set by {owner}: release {release.name} "
                    f"resets them to {wanted}",
                    "The chart sets the number of replicas, so Helm resets it, until the autoscaler changes it again.",
                    "Set the current number of replicas in the release's values. If an autoscaler manages it, set it "
                    "to null: see the chart's README (coredns.replicas of chart kubernetes).",
                )


def _other_owner(live: KubeObject) -> str:
    """The field manager, other than Helm, that has set the number of pods; "" if there is none."""
    for entry in live["metadata"].get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:replicas" in fields and entry.get("manager", "") != _HELM:
            return str(entry.get("manager") or "an unknown client")
    return ""
