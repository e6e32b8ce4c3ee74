"""A recovery as a pipeline: the same engine, journal and gates as an upgrade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.release_gate import ReleaseGate
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.release import RestorePoint
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock, Helm, Hosts, Kube, Recovery
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.restoring.next_actions import Attempts, next_actions
from upgrader.recover.steps.hand_over import HandOverStep
from upgrader.recover.steps.release_recovery import ReleaseRecoveryStep
from upgrader.wait_and_retry import wait_until

__all__ = ["ApiStep", "RecoverTools", "hand_over", "recover_pipeline", "recovered"]

_NAMESPACE = "kube-system"
_HEARTBEAT_SECONDS = 20.0
"""A kubelet renews its Lease every 10 s."""


@dataclass(frozen=True)
class RecoverTools:
    """The ports that a recovery works through, and how it examines the controllers."""

    hosts: Hosts
    helm: Helm
    kube: Kube
    clock: Clock
    cluster: Cluster
    examine: Callable[[], Diagnosis]
    recovery: Recovery
    gates: GateCatalog
    helm_timeout_seconds: float


@dataclass(frozen=True)
class ApiStep:
    """Restores the API over SSH. `seen` is the diagnosis that the operator was shown."""

    recovery: Recovery
    seen: Diagnosis
    name: str = "api"

    def summary(self) -> str:
        api = self.seen.api
        actions = next_actions(self.seen.controllers, Attempts(), 0.0, api_answers=api.answers, replace=True)
        if actions:
            return "; ".join(map(str, actions))
        return "the API answers: nothing to start" if api.answers else "wait until the API answers"

    def capture(self) -> None:
        """Nothing to undo: what was started here is what works."""

    def apply(self, note: Callable[[str], None]) -> None:
        self.recovery.bring_api_back(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""


def recover_pipeline(seen: Diagnosis, tools: RecoverTools) -> Pipeline:
    """The API first, then the release that broke it, then the hand-over to its own pods; gated as an upgrade is."""
    release = ReleaseRecoveryStep(
        examine=tools.examine,
        recovery=tools.recovery,
        hosts=tools.hosts,
        helm=tools.helm,
        kube=tools.kube,
        clock=tools.clock,
        timeout_seconds=tools.helm_timeout_seconds,
        api_was_away=not seen.serves,
        wrong=seen.wrong,
    )
    return Pipeline(
        (
            PipelineStep(ApiStep(tools.recovery, seen), (), ()),
            PipelineStep(release, (), ()),
            hand_over(tools, replaced_wrong=bool(seen.wrong)),
        )
    )


def hand_over(tools: RecoverTools, *, replaced_wrong: bool = False) -> PipelineStep:
    """From the standby pods to kube-apiserver's own pods, and the gates behind it."""
    step = HandOverStep(
        hosts=tools.hosts,
        helm=tools.helm,
        kube=tools.kube,
        clock=tools.clock,
        cluster=tools.cluster,
        examine=tools.examine,
        recovery=tools.recovery,
        replaced_wrong=replaced_wrong,
    )
    return PipelineStep(step, _gates(tools), ())


def recovered(tools: RecoverTools, note: Callable[[str], None]) -> str:
    """What is still missing until the cluster is as after a recovery; "" when nothing is.

    Waits only for what can't be known at once: whether the kubelets live.
    """
    gates, failing = _gates(tools), list[Verdict]()

    def unknown() -> str:
        failing[:] = [seen for item in gates if (seen := item.gate.check()).kind is not VerdictKind.HOLDS]
        certain = any(verdict.kind is not VerdictKind.UNKNOWN for verdict in failing)
        return failing[0].reason if failing and not certain else ""

    wait_until(tools.clock, unknown, seconds=_HEARTBEAT_SECONDS, what="the kubelets' heartbeats", note=note)
    return failing[0].reason if failing else ""


def _gates(tools: RecoverTools) -> tuple[GateRun, ...]:
    gates = tools.gates
    return (
        gates.run(ReleaseGate("kube-apiserver", _NAMESPACE, tools.helm, _own("kube-apiserver", gates))),
        gates.run(
            ReleaseGate("pod-checkpointer", _NAMESPACE, tools.helm, _own("pod-checkpointer", gates), optional=True)
        ),
        *gates.of_controllers(),
    )


def _own(release: str, gates: GateCatalog) -> Callable[[str], tuple[GateRun, ...]]:
    return lambda manifest: gates.own(release, manifest, namespace=_NAMESPACE, target=None)
