"""Whether every group version of the API that was served still is."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from upgrader.errors import ApiError, UsageError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.model.api_lifecycle import ends_between
from upgrader.model.baseline import Baseline
from upgrader.model.emulation import ServerVersion
from upgrader.model.manifest import objects_in
from upgrader.model.outcome import Verdict, broken, pending
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kube

__all__ = ["built_in", "check_groups", "missing_at", "missing_groups", "read_groups", "removed_by"]

PRERELEASES = "prerelease versions of Kubernetes' own groups"
"""Stands for all of them, where a plan changes which of them are turned on."""

_STAGE = re.compile(r"/v\d+(alpha|beta)\d+$")
_TURNED_ON = re.compile(r"--(?:runtime-config|feature-gates)=[^\s'\"]*")
_PLAIN_GROUPS = frozenset({"apps", "autoscaling", "batch", "extensions", "policy"})
_BUILT_IN = re.compile(
    r"^(?:admissionregistration|apiextensions|apiregistration|authentication|authorization|certificates|coordination|"
    r"discovery|events|flowcontrol\.apiserver|internal\.apiserver|networking|node|rbac\.authorization|resource|"
    r"scheduling|storage|storagemigration)\.k8s\.io$"
)


def read_groups(kube: Kube, server: str = "") -> tuple[str, ...]:
    """The group versions that are served, such as `apps/v1`. Raises ApiUnavailable or ApiError."""
    found = json.loads(kube.raw("/apis", server=server))
    return tuple(sorted(item["groupVersion"] for group in found["groups"] for item in group["versions"]))


def check_groups(kube: Kube, baseline: Baseline, server: str, expected: Collection[str]) -> Verdict | None:
    """All of the baseline are served, but for those that the version removes, or the plan (`expected`)."""
    at = f" at {server}" if server else ""
    remedy = (
        "Check kube-apiserver's flags runtime-config and feature-gates; for other groups, the "
        f"CustomResourceDefinition or APIService. {KEEP_THE_RELEASES}"
    )
    try:
        missing = missing_at(kube, baseline, expected, server)
    except ApiError as error:
        return contradicted(f"the list of API groups{at}", error, remedy)
    except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
        return pending(f"the list of API groups{at} can't be read: {error}", remedy=remedy)
    if not missing:
        return None
    what = f"kube-apiserver{at} no longer serves {', '.join(missing)}, which it served before this run"
    # What others serve may be restarting; Kubernetes' own are served from the start, or never.
    return (broken if any(map(built_in, missing)) else pending)(what, remedy=remedy)


def missing_at(kube: Kube, baseline: Baseline, expected: Collection[str], server: str = "") -> tuple[str, ...]:
    """The same as `missing_groups`, of an instance. Raises ApiUnavailable, ApiError, or what an odd answer causes."""
    version = ServerVersion.parse(kube.raw("/version", server=server)).serves_as
    return missing_groups(baseline, read_groups(kube, server), str(version), expected)


def missing_groups(
    baseline: Baseline, served: Collection[str], version: str, expected: Collection[str]
) -> tuple[str, ...]:
    """The group versions of the baseline that are neither served nor expected to be removed. Pure."""
    before, now = KubernetesVersion.parse(baseline.version), KubernetesVersion.parse(version)
    gone = [item for item in baseline.groups if item not in served and item not in expected]
    return tuple(item for item in gone if not _outdated(item, before, now, served, expected))


def _outdated(
    group: str, before: KubernetesVersion, now: KubernetesVersion, served: Collection[str], expected: Collection[str]
) -> bool:
    """Whether another version of Kubernetes, or another choice of prerelease versions, explains that it is gone."""
    if not built_in(group):
        return False
    stage = _STAGE.search(group)
    if stage is not None and PRERELEASES in expected:
        return True
    old, new = (before.major, before.minor), (now.major, now.minor)
    if new < old:  # rolled back to a version that may not have had it
        return True
    if ends_between(group, before, now):
        return True
    if stage is None or new == old:
        return False
    name = group.partition("/")[0]
    stays = any(item.startswith(f"{name}/") and _STAGE.search(item) is None for item in served)
    return stays or stage[1] == "alpha"


def removed_by(before: str, after: str) -> frozenset[str]:
    """The group versions that one release's plan removes: those of its CustomResourceDefinitions and APIServices."""
    gone = frozenset(_declared(before)) - frozenset(_declared(after))
    chosen = _TURNED_ON.findall(before) != _TURNED_ON.findall(after)
    return gone | {PRERELEASES} if chosen else gone


def _declared(manifest: str) -> Iterator[str]:
    if "CustomResourceDefinition" not in manifest and "APIService" not in manifest:
        return
    for item in objects_in(manifest).values():
        spec: Mapping[str, Any] = item.get("spec") or {}
        match item.get("kind"):
            case "CustomResourceDefinition":
                yield from (f"{spec['group']}/{each['name']}" for each in spec["versions"] if each.get("served"))
            case "APIService":
                yield f"{spec.get('group', '')}/{spec['version']}"


def built_in(group: str) -> bool:
    """Whether a group version is Kubernetes' own, rather than a CustomResourceDefinition's or an APIService's."""
    name = group.partition("/")[0]
    return name in _PLAIN_GROUPS or _BUILT_IN.match(name) is not None
