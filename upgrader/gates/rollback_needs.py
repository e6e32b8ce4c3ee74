"""What a rollback with Helm needs of an API server that answers: Helm's records, `apps/v1`, accepted credentials, pods.

An API server can be ready and wrong: it answers, and refuses whatever would set it right. For a run that is the same as
an API server that is down, because no Helm can help then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, PODS, REPLICA_SETS, SECRETS, WORKLOADS
from upgrader.gates.trial_pod import trial_pod
from upgrader.model.undecrypted import is_undecrypted
from upgrader.onhost.node.refused_writes import is_servers_own, is_webhooks
from upgrader.ports import Clock, Kube, KubeObject

__all__ = ["NOT_ACCEPTED", "REFUSALS", "Admitted", "Refusal", "is_refusal", "lasting_refusal", "refusal"]

_STORED = re.compile(r"exceeded quota|violates PodSecurity", re.IGNORECASE)
"""Refusals by what is stored in the API: every instance answers the same."""
_IMAGE_POLICY = re.compile(r'image policy webhook backend denied|is forbidden: Post "https?://', re.IGNORECASE)
"""ImagePolicyWebhook, and where its backend is down: kube-apiserver's flags name it."""
_POD_SECURITY = re.compile(r"violates PodSecurity", re.IGNORECASE)
"""By a label of the namespace, or by a configuration file that kube-apiserver's flags name."""
_ENFORCE = "pod-security.kubernetes.io/enforce"
_REFUSED = re.compile(
    r"forbidden|unauthorized|could not find the requested resource|no matches for kind|release: not found",
    re.IGNORECASE,
)
"""How Helm reports what an API server refused; it has no statuses."""

_NAMESPACE = "kube-system"
NOT_ACCEPTED = (401, 403)
"""Statuses with which an API server answers credentials that it doesn't accept."""
_TRIAL = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "upgrader-trial"}}
_WORKLOAD = "kube-apiserver"

REFUSALS = 3
"""How often something must be refused: a single answer may be of an instance that starts or stops."""

_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Refusal:
    """What is refused, in the API server's words."""

    text: str
    credentials: bool = False
    """Whether the caller was not accepted, which may be the fault of the credentials, too."""


@dataclass
class Admitted:
    """A ReplicaSet whose pods have run, and which the API server has just admitted another pod of."""

    like: KubeObject | None = None


def refusal(kube: Kube, release: str = "", *, admitted: bool = False, known: Admitted | None = None) -> Refusal | None:
    """What a rollback needs and the API server refuses; None for nothing, or if it doesn't answer at all.

    `release` names a release in kube-system that is known to be installed: then it must be there, or its records. Five
    requests, without the records themselves, where neither is missing; the writes are dry runs. `admitted`: whether
    kube-apiserver's pods were admitted before the run that has to be rolled back. `known` is kept by who asks again and
    again: it spares the list of ReplicaSets while pods of the same one are still admitted.
    """
    labels, fields = f"owner=helm,name={release or _WORKLOAD}", f"metadata.name={_WORKLOAD}"
    try:
        found: int = kube.count(SECRETS, _NAMESPACE, labels=labels)
        workloads = kube.list(WORKLOADS["Deployment"], _NAMESPACE, fields=fields)
        found += len(workloads)
        if release and not found:
            # HELM_DRIVER may have the records in ConfigMaps, and an older chart's kube-apiserver is a DaemonSet.
            found = kube.count(CONFIG_MAPS, _NAMESPACE, labels=labels)
            found += len(kube.list(WORKLOADS["DaemonSet"], _NAMESPACE, fields=fields))
    except ApiUnavailable:
        return None
    except ApiError as error:
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not is_undecrypted(error.message):
            return None  # etcd may be slow, or electing a leader: that passes
        return Refusal(error.message, credentials=error.status in NOT_ACCEPTED)
    # Records alone may be elsewhere: in HELM_DRIVER's database, or nowhere, as Argo CD applies charts without them.
    if release and not found:
        return Refusal(
            f"Helm's records of release {release} are gone: the API server serves different data than before"
        )
    pods = (_pod_refusal(kube, item, admitted, known or Admitted()) for item in workloads)
    return _record_refusal(kube) or next(filter(None, pods), None)


def _record_refusal(kube: Kube) -> Refusal | None:
    """Whether the API server itself, by its admission plugins, refuses one of Helm's records."""
    try:
        kube.create(SECRETS, _TRIAL, _NAMESPACE, dry_run=True)
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN and is_servers_own(error.message):
            return Refusal(error.message)
    return None


def _pod_refusal(kube: Kube, deployment: KubeObject, admitted: bool, known: Admitted) -> Refusal | None:
    """Whether it refuses every pod like those that run: a rollback would wait for one in vain.

    Those that run were admitted. The Deployment's own template may be the mistake itself, which any API server refuses:
    a priority class that doesn't exist, or more memory than a limit allows.
    """
    if known.like is not None and _refused_pod(kube, known.like, admitted) is None:
        return None
    found = known.like = None
    try:
        for replica_set in _running(kube, deployment):
            found = _refused_pod(kube, replica_set, admitted)
            if found is None:
                known.like = replica_set
                return None
    except ApiError:
        return None  # what can't be read is no evidence
    return found


def _refused_pod(kube: Kube, replica_set: KubeObject, admitted: bool) -> Refusal | None:
    try:
        kube.create(PODS, trial_pod(replica_set), _NAMESPACE, dry_run=True)
    except ApiError as error:
        own = is_servers_own(error.message) or (admitted and _by_flags(kube, error.message))
        if error.status == HTTPStatus.FORBIDDEN and own:
            return Refusal(error.message)
    return None


def _by_flags(kube: Kube, message: str) -> bool:
    """Whether a plugin that the server's flags configure forbids a pod like one that was admitted before the run.

    Only in words that are known: limits, quotas, classes and accounts are stored, and come and go.
    """
    if is_webhooks(message):
        return False
    if _IMAGE_POLICY.search(message):
        return True
    if not _POD_SECURITY.search(message):
        return False
    found = kube.get(NAMESPACES, _NAMESPACE)
    return found is not None and _ENFORCE not in (found["metadata"].get("labels") or {})


def _running(kube: Kube, deployment: KubeObject) -> Iterator[KubeObject]:
    """The ReplicaSets of a Deployment that have a Ready pod."""
    uid = deployment["metadata"].get("uid")
    for item in kube.list(REPLICA_SETS, _NAMESPACE):
        owners = item["metadata"].get("ownerReferences") or ()
        ready = (item.get("status") or {}).get("readyReplicas") or 0
        if ready and uid is not None and any(owner.get("uid") == uid for owner in owners):
            yield item


def lasting_refusal(kube: Kube, clock: Clock, release: str = "", *, admitted: bool = False) -> Refusal | None:
    """The same, where it is refused time after time; takes some seconds only where something is refused."""
    found = None
    for attempt in range(REFUSALS):
        if attempt:
            clock.sleep(_PAUSE_SECONDS)
            kube.reconnect()  # another instance may answer otherwise
        found = refusal(kube, release, admitted=admitted)
        if found is None:
            return None
    return found


def is_refusal(message: str) -> bool:
    """Whether Helm failed because an API server refused it: of two that share an address, the other may not."""
    return bool(_REFUSED.search(message)) and not (is_webhooks(message) or _STORED.search(message))
