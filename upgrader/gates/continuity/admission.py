"""Whether the pods of the control plane's workloads would be admitted, if they had to be created now."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.continuity.sentinel import NAMESPACE
from upgrader.gates.kubernetes_kinds import PODS, WORKLOADS
from upgrader.gates.trial_pod import NO_DRY_RUN, trial_pod
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.model.workload import WorkloadKind
from upgrader.ports import Kube, KubeObject

__all__ = ["KUBE_APISERVER_TEMPLATE", "admitted_templates", "check_admission", "try_pod"]

KUBE_APISERVER_TEMPLATE = f"Deployment {NAMESPACE}/kube-apiserver"
"""How the baseline names it."""

_RELEASE = "meta.helm.sh/release-name"
_AT_MOST = 8
_OF_OURS: tuple[WorkloadKind, ...] = ("DaemonSet", "Deployment")
"""What our charts have."""


def admitted_templates(kube: Kube) -> tuple[dict[str, str], dict[str, str]]:
    """The built-in releases' workloads whose pods are admitted, and those whose aren't: name → why.

    Raises ApiUnavailable or ApiError when they can't be listed.
    """
    admitted: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, workload in _templates(kube):
        try:
            try_pod(kube, workload)
            admitted[name] = ""
        except ApiUnavailable:
            raise
        except ApiError as error:
            refused[name] = error.message
    return admitted, refused


def check_admission(kube: Kube, baseline: Baseline) -> Verdict | None:
    """A pod of each workload that was admitted before would be admitted now: a dry run, nothing is created."""
    remedy = (
        "Check kube-apiserver's flags enable-admission-plugins and admission-control-config-file, and the webhooks "
        f"(kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations). {KEEP_THE_RELEASES}"
    )
    what = "reading the control plane's workloads"
    try:
        for name, workload in _templates(kube):
            if name in baseline.templates:
                what = f"creating a pod of {name}"
                try_pod(kube, workload)
    except ApiError as error:
        return None if NO_DRY_RUN in error.message else contradicted(what, error, remedy)
    return None


def try_pod(kube: Kube, workload: KubeObject) -> None:
    """Create a pod of a workload's template as a dry run. Raises ApiUnavailable or ApiError with the refusal."""
    kube.create(PODS, trial_pod(workload), workload["metadata"]["namespace"], dry_run=True)


def _templates(kube: Kube) -> Iterator[tuple[str, KubeObject]]:
    found = [(kind, item) for kind in _OF_OURS for item in kube.list(WORKLOADS[kind], NAMESPACE)]
    of_releases = [
        (f"{kind} {NAMESPACE}/{item['metadata']['name']}", item)
        for kind, item in found
        if (item["metadata"].get("annotations") or {}).get(_RELEASE) in BUILT_IN_CHARTS
    ]
    yield from of_releases[:_AT_MOST]
