"""The API server would admit the planned workloads and their pods, and what gates write: each is created in a
server-side dry run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, WORKLOADS
from upgrader.gates.trial_pod import NO_DRY_RUN, trial_pod
from upgrader.gates.written_objects import PROBE_NAMESPACE, availability_object, round_trip_object
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.manifest import Manifest, objects_in
from upgrader.ports import KubeObject
from upgrader.preflight.context import PODS, PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["check_admission"]

_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
_MANAGED_BY, _RELEASE = "app.kubernetes.io/managed-by", "meta.helm.sh/release-name"
_GRACE = "terminationGracePeriodSeconds"
_NAMED = {
    "serviceAccountName": "ServiceAccount",
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
}
"""Fields of a pod that name an object which must exist, and its kind."""
_REMEDIES = {
    "webhook": "Fix the webhook's backend, or exclude namespace {namespace} with a `namespaceSelector` in the "
    "webhook's configuration (kubernetes.io/metadata.name NotIn {namespace}). To find it: kubectl get "
    "validatingwebhookconfigurations,mutatingwebhookconfigurations",
    "PodSecurity": "Lower the namespace's level: kubectl label --overwrite namespace {namespace} "
    "pod-security.kubernetes.io/enforce=privileged",
    'namespaces "': "Create it before the run: kubectl create namespace {namespace}",
    "quota": "Raise the quota; see: kubectl -n {namespace} describe resourcequotas",
}
"""By a word of the API's message."""


def check_admission(context: PreflightContext) -> Iterator[Finding]:
    """No webhook, policy or quota refuses a workload, or its pods: neither the upgrade nor its rollback could get past
    that. Nor does one refuse what gates write: a good upgrade would be rolled back for it.
    """
    if context.changing:
        yield from _written(context)
    brought: set[str] = set()  # by the release itself, or by those before it in the pipeline
    for release in context.changing:
        after = objects_in(release.after)
        brought |= after.keys() - objects_in(release.before).keys()
        for name, item in after.items():
            if item["kind"] in _WORKLOADS:
                yield from _workload(context, release, name, item, brought)


def _workload(
    context: PreflightContext, release: PlannedRelease, name: str, item: Manifest, brought: Collection[str]
) -> Iterator[Finding]:
    namespace = item["metadata"].get("namespace") or release.spec.namespace
    if f"Namespace {namespace}" in brought and context.kube.get(NAMESPACES, namespace) is None:
        yield _untested(name, f"Namespace {namespace} doesn't exist yet: the run creates it.")
        return
    try:
        pod = trial_pod(item, without=_brought_fields(item, namespace, brought))
        admitted = context.kube.create(PODS, pod, namespace, dry_run=True)
    except ApiUnavailable:
        raise
    except ApiError as error:
        yield _refused(f"{name}: the API refuses its pods", name, error, namespace, _of_values(release))
        return
    if limited := _added_limits(pod, admitted):
        yield Finding(
            "admission.limits",
            "warning",
            f"{name}: the API adds limits to its pods that the chart doesn't set: {first_few(limited)}",
            "A LimitRange or a webhook of the namespace adds them. A container that reaches its memory limit is "
            "OOM-killed; at its CPU limit, it is throttled.",
            f"kubectl -n {namespace} get limitranges; or set your own limits in the values of release {release.name}.",
        )
    less_time = list(_shortened(name, namespace, item, admitted["spec"]))
    yield from less_time
    known = {finding.id for finding in less_time}
    yield from (finding for finding in _itself(context, release, name, item) if finding.id not in known)


def _itself(context: PreflightContext, release: PlannedRelease, name: str, item: Manifest) -> Iterator[Finding]:
    """Policies for workloads refuse Helm's write of it before there are pods: that of a rollback, too."""
    meta = item["metadata"]
    kind, namespace = WORKLOADS[item["kind"]], meta.get("namespace") or release.spec.namespace
    helms = {"labels": {_MANAGED_BY: "Helm"}, "annotations": {_RELEASE: release.name}}
    known = {key: {**(meta.get(key) or {}), **added} for key, added in helms.items()}
    try:
        live = context.kube.get(kind, meta["name"], namespace)
        if live is None:
            tried = {**item, "metadata": {**meta, **known}}
            written = context.kube.create(kind, tried, namespace, dry_run=True)
            yield from _shortened(name, namespace, item, written["spec"]["template"]["spec"])
            return
        # Of its spec only what its pods are made of: the rest may have become another client's, such as `replicas`.
        template = _patch(live["spec"]["template"], item["spec"]["template"])
        changes = {"metadata": known, "spec": {"template": template}}
        written = context.kube.dry_patch(kind, meta["name"], changes, namespace)
        yield from _shortened(name, namespace, item, written["spec"]["template"]["spec"])
    except ApiUnavailable:
        raise
    except ApiError as error:
        if error.status in (404, 409):
            return  # made or removed meanwhile
        yield _refused(f"{name}: the API refuses it", name, error, namespace, _of_values(release))


def _shortened(name: str, namespace: str, item: Manifest, pod: KubeObject) -> Iterator[Finding]:
    """`item` is a workload of the chart, called `name`; `pod` the spec of its pods as the API would store it. Where the
    chart names no time, none is shorter.
    """
    wanted = item["spec"]["template"]["spec"].get(_GRACE)
    given = pod.get(_GRACE)
    if wanted is None or given is None or given >= wanted:
        return
    yield Finding(
        "admission.grace-period",
        "warning",
        f"{name}: in the API, {_GRACE} of its pods is {given} s, but {wanted} s in the chart",
        "A policy or a webhook changes this field. A terminating pod is killed after that time: requests in flight "
        "fail, and open connections are cut.",
        f"Exclude namespace {namespace} from that policy. To find it: kubectl get "
        "mutatingwebhookconfigurations; since v1.36, kubectl get mutatingadmissionpolicies, too",
    )


def _patch(old: Manifest, new: Manifest) -> dict[str, Any]:
    """The merge patch from one object to the other; the API server's defaults are filled in again."""
    gone: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    both = {key: (old.get(key), value) for key, value in new.items()}
    return gone | {
        key: _patch(before, after) if isinstance(before, Mapping) and isinstance(after, Mapping) else after
        for key, (before, after) in both.items()
    }


def _of_values(release: PlannedRelease) -> str:
    return f"Change the values of release {release.name}, or the policy that rejects them."


def _refused(title: str, name: str, error: ApiError, namespace: str, otherwise: str) -> Finding:
    """`otherwise` is the remedy where the API's message has none of the known words."""
    if NO_DRY_RUN in error.message:
        return _untested(name, error.message)
    remedies = [text.format(namespace=namespace) for word, text in _REMEDIES.items() if word in error.message]
    return Finding(
        "admission.refused",
        "error",
        title,
        error.message,
        remedies[0] if remedies else otherwise,
    )


def _added_limits(pod: KubeObject, admitted: KubeObject) -> list[str]:
    """`CONTAINER: memory 128Mi` for each limit that the pod's own manifest doesn't have."""
    wanted = {item["name"]: (item.get("resources") or {}).get("limits") or {} for item in _containers(pod)}
    return [
        f"{item['name']}: {kind} {value}"
        for item in _containers(admitted)
        for kind, value in ((item.get("resources") or {}).get("limits") or {}).items()
        if kind not in wanted.get(item["name"], {})
    ]


def _containers(pod: KubeObject) -> list[KubeObject]:
    return [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]


def _unwritten(name: str, why: str) -> Finding:
    return Finding("admission.untested", "info", f"{name}: a dry run can't tell whether a gate may write it", why)


def _untested(name: str, why: str) -> Finding:
    return Finding("admission.untested", "info", f"{name}: a dry run can't tell whether its pods are admitted", why)


def _brought_fields(item: Manifest, namespace: str, brought: Collection[str]) -> frozenset[str]:
    """The fields that refer to objects which the run creates: until then, the API refuses every pod that refers to
    them.
    """
    spec = item["spec"]["template"]["spec"]
    return frozenset(
        key
        for key, kind in _NAMED.items()
        if key in spec and {f"{kind} {namespace}/{spec[key]}", f"{kind} {spec[key]}"} & set(brought)
    )


def _written(context: PreflightContext) -> Iterator[Finding]:
    """The first one that is refused: most often, all are for the same reason."""
    for item in _gates_objects(context):
        name = f"ConfigMap {PROBE_NAMESPACE}/{item['metadata']['name']}"
        otherwise = f"Exclude from the policy the ConfigMaps of {PROBE_NAMESPACE} whose names begin with `upgrader-`."
        try:
            context.kube.create(CONFIG_MAPS, item, PROBE_NAMESPACE, dry_run=True)
        except ApiUnavailable:
            raise
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:  # a prober that was killed has left it
                continue
            if NO_DRY_RUN in error.message:
                yield _unwritten(name, error.message)
            else:
                yield _refused(
                    f"{name}, which a gate writes, is refused by the API", name, error, PROBE_NAMESPACE, otherwise
                )
            return


def _gates_objects(context: PreflightContext) -> Iterator[KubeObject]:
    """Of the gate of kube-apiserver, and of the prober, as far as the run has them."""
    if any(release.name == "kube-apiserver" for release in planned_of(context.plan, PlannedRelease)):
        yield round_trip_object("upgrader-probe-dry-run", "dry run")
    if context.probes:
        yield availability_object("dry run")
