"""Whether a Deployment that is created now gets a pod that works, and its Service that pod's address."""

from __future__ import annotations

import secrets
from enum import Enum

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.continuity.new_objects import deployment, service
from upgrader.gates.continuity.sentinel import LABELS, NAME, NAMESPACE
from upgrader.gates.kubernetes_kinds import SERVICES, WORKLOADS
from upgrader.gates.ready_endpoints import has_ready_endpoint
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Clock, Kube

__all__ = ["NewWorkload", "remove_workloads"]

_DEPLOYMENTS = WORKLOADS["Deployment"]
_CHECKPOINTER = "pod-checkpointer"
_REMEDY = (
    "Check kube-controller-manager, kube-scheduler, the kubelets, the pod network, kube-proxy and the cluster's DNS. "
    f"{KEEP_THE_RELEASES}"
)


class _Stage(Enum):
    TO_CREATE = "to create"
    STARTING = "starting"
    ENDING = "ending"
    DONE = "done"


class NewWorkload:
    """The life of one Deployment with one replica: created, ready, in its Service's endpoints, deleted, out of them.

    Each check moves it on as far as it can, without waiting; it holds once its life has ended well.
    """

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._clock = kube, clock
        self._ref = WorkloadRef("Deployment", NAMESPACE, f"{NAME}-{secrets.token_hex(3)}")
        self._stage = _Stage.TO_CREATE
        self.impossible = ""
        """Why it can't be tried at all; "" where it can."""

    @property
    def worked(self) -> bool:
        """Whether its pod has worked: from then on, only its end is waited for."""
        return self._stage in (_Stage.ENDING, _Stage.DONE)

    def check(self) -> Verdict:
        """One check: `holds` when all is done, else what it waits for."""
        try:
            match self._stage:
                case _Stage.TO_CREATE:
                    return self._create()
                case _Stage.STARTING:
                    return self._started()
                case _Stage.ENDING:
                    return self._ended()
                case _Stage.DONE:
                    return holds(
                        "a new Deployment was rolled out, its pod reached the API, and its endpoints were updated"
                    )
        except ApiError as error:
            return contradicted(f"a new {self._ref}", error, _REMEDY)

    def remove(self) -> None:
        """Give it up. Raises ApiUnavailable or ApiError."""
        self._kube.delete(_DEPLOYMENTS, self._ref.name, NAMESPACE)
        self._kube.delete(SERVICES, self._ref.name, NAMESPACE)

    def _create(self) -> Verdict:
        checkpointer = self._kube.get(WORKLOADS["DaemonSet"], _CHECKPOINTER, NAMESPACE)
        if checkpointer is None:
            # Its image is on every controller and has a Python.
            self.impossible = f"DaemonSet {NAMESPACE}/{_CHECKPOINTER}, whose image the test pod uses, does not exist"
            return broken(self.impossible, remedy="Add the release pod-checkpointer to `pipeline` in upgrader.yaml.")
        self._kube.apply(SERVICES, service(self._ref.name), NAMESPACE)
        self._kube.apply(_DEPLOYMENTS, deployment(self._ref.name, checkpointer), NAMESPACE)
        self._stage = _Stage.STARTING
        return pending(f"{self._ref} was just created", remedy=_REMEDY)

    def _started(self) -> Verdict:
        verdict = diagnose_workload(self._kube, self._ref)
        if verdict.kind is not VerdictKind.HOLDS:
            return verdict
        if not self._has_endpoint():
            return pending(f"{self._ref} is ready, but its pod is not among its Service's endpoints", remedy=_REMEDY)
        self._kube.delete(_DEPLOYMENTS, self._ref.name, NAMESPACE)
        self._stage = _Stage.ENDING
        return self._ended()

    def _ended(self) -> Verdict:
        if self._has_endpoint():
            return pending(
                f"{self._ref} is deleted, but its pod is still among its Service's endpoints", remedy=_REMEDY
            )
        self._kube.delete(SERVICES, self._ref.name, NAMESPACE)
        self._stage = _Stage.DONE
        return self.check()

    def _has_endpoint(self) -> bool:
        return bool(has_ready_endpoint(self._kube, NAMESPACE, self._ref.name))


def remove_workloads(kube: Kube) -> None:
    """Remove what checks that were not completed left. Raises ApiUnavailable or ApiError."""
    labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
    for kind in (_DEPLOYMENTS, SERVICES):
        for item in kube.list(kind, NAMESPACE, labels=labels):
            kube.delete(kind, item["metadata"]["name"], NAMESPACE)
