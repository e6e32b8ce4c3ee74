"""`upgrader rehearse copy`: writes what a lab needs to be like this cluster, for its operator to read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from upgrader.adopt.facts import flags_of
from upgrader.app.cluster_survey import survey
from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import open_kube
from upgrader.config.cluster_copy_yaml import copy_text, fitting
from upgrader.config.load import load_settings
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ApiError, UsageError
from upgrader.model.cluster_copy.copy import ClusterCopy, copy_of
from upgrader.model.components import COMPONENTS
from upgrader.model.settings import ReleaseSettings, Settings
from upgrader.ports import LARGE_AT_ONCE, Kind, Kube, KubeObject

__all__ = ["read_cluster", "write_cluster_copy"]

_SECONDS = 30.0
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_STATIC = "kubernetes.io/config.mirror"
_ADMISSION = "admissionregistration.k8s.io/v1"
_KINDS: Mapping[str, Kind] = {
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "CustomResourceDefinition": Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
    "PodDisruptionBudget": Kind("policy/v1", "poddisruptionbudgets"),
    "Deployment": Kind("apps/v1", "deployments"),
    "DaemonSet": Kind("apps/v1", "daemonsets"),
    "StatefulSet": Kind("apps/v1", "statefulsets"),
    "ValidatingAdmissionPolicy": Kind(_ADMISSION, "validatingadmissionpolicies", namespaced=False),
    "ValidatingAdmissionPolicyBinding": Kind(_ADMISSION, "validatingadmissionpolicybindings", namespaced=False),
    "ValidatingWebhookConfiguration": Kind(_ADMISSION, "validatingwebhookconfigurations", namespaced=False),
    "MutatingWebhookConfiguration": Kind(_ADMISSION, "mutatingwebhookconfigurations", namespaced=False),
}
"""The kinds of the allow-list; lists don't say of what kind their items are."""


def write_cluster_copy(folder: Path, out: Path, front_end: FrontEnd) -> ClusterCopy:
    """Write the copy to `out` (mode 0600), in place of what is there. Changes nothing in the cluster.

    Raises ApiError, Blocked for a control plane of another making, and UsageError where the file can't be written.
    """
    if out.exists() and not out.is_file():
        raise UsageError(f"the copy can't be written to {out}: it is not a regular file")
    settings = load_settings(folder, os.environ)
    with front_end.busy(), open_kube(folder, _SECONDS) as kube:
        copied = fitting(read_cluster(kube, settings, front_end))
    try:
        write_atomic(out, copy_text(copied).encode())
    except OSError as error:
        raise UsageError(f"the copy can't be written to {out}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(
            f"the copy was not written, because it could not be read back: {getattr(error, 'problem', None) or error}",
            remedy="Create a lab with the cluster's versions and size yourself: upgrader lab up --help",
        ) from error
    return copied


def read_cluster(kube: Kube, settings: Settings, front_end: FrontEnd) -> ClusterCopy:
    """The copy of a cluster. Unknown is not empty: a kind that can't be listed is an error. Raises ApiError."""
    front_end.doing("reading the cluster's objects, flags and nodes…")
    found = survey(kube)
    values = {item.name: item.values for item in settings.pipeline if isinstance(item, ReleaseSettings)}
    adopted = found.kind == "self-hosted"
    static = None if adopted else _static_flags(kube)
    return copy_of(found.version, kube.each(_NODES), _objects(kube), values, adopted=adopted, static=static)


def _static_flags(kube: Kube) -> dict[str, Sequence[Mapping[str, Sequence[str]]]]:
    """Component → the flags of each of its static pods."""
    return {
        component: [
            flags_of(container)
            for pod in kube.list(_PODS, "kube-system", labels=f"component={component}")
            if _STATIC in (pod["metadata"].get("annotations") or {})
            for container in pod["spec"]["containers"]
            if container["name"] == component
        ]
        for component in COMPONENTS
    }


def _objects(kube: Kube) -> Iterator[KubeObject]:
    for name, kind in _KINDS.items():
        try:
            for item in kube.each(kind, at_once=LARGE_AT_ONCE):
                typed: dict[str, Any] = {**item, "apiVersion": kind.api_version, "kind": name}
                yield typed
        except ApiError as error:
            if error.status != 404:  # an API that this version doesn't have yet
                raise
