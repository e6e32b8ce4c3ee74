"""The step that rolls kube-apiserver's release back to the revision that the last-known-good generation came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from upgrader.errors import ApiUnavailable, HelmError, ReleaseLocked, StepFailed
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.rollback_needs import is_refusal
from upgrader.gates.workload_diagnosis import diagnose_workload as judge
from upgrader.gates.workload_reading import read_workload
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.release import RECOVERED_RELEASE as RELEASE
from upgrader.model.release import RestorePoint, Revision, last_good
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Clock, Helm, Hosts, Kube, KubeObject, Recovery
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.steps.checkpoints import read_checkpoints
from upgrader.recover.steps.hand_over import holds_port
from upgrader.recover.steps.manual_edits import additions, take_out_edits
from upgrader.recover.steps.pod_content import contradictions, pod_content
from upgrader.recover.steps.revision_match import Checkpoint, Rendered, matching, rendered
from upgrader.wait_and_retry import wait_until

__all__ = ["NAMESPACE", "LostRecords", "ReleaseRecoveryStep", "lost_records"]

NAMESPACE = "kube-system"

EVIDENCE_SECONDS = 60.0
"""How long the newest revision may take to prove itself, unless the last-known-good generation was made from it."""

_SURE_CHECKS = 2
_FRESH_CHECKS = 15
"""Checks, a second apart, that must find healthy what isn't known to work: a pod's status in the API may be from before
the power cut, until the kubelet has reported again.
"""
_HASHES = ("pod-template-hash", "controller-revision-hash")
_ROLLBACK_TRIES = 4


@dataclass(frozen=True)
class LostRecords:
    """What to say where Helm has no record of the release, and its workload is there."""

    message: str
    remedy: str


def lost_records(kube: Kube) -> LostRecords | None:
    """None where the workload is gone as well. Raises ApiError."""
    refs = (WorkloadRef("Deployment", NAMESPACE, RELEASE), WorkloadRef("DaemonSet", NAMESPACE, RELEASE))
    there = [ref for ref in refs if kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace) is not None]
    if not there:
        return None
    return LostRecords(
        f"Helm has no record of release {RELEASE}, but {there[0]} exists: the records are lost, or in another storage "
        "backend (HELM_DRIVER), so there is no revision to roll back to",
        "Set HELM_DRIVER as it was when the release was installed. If the records are lost, restore the Secrets "
        f"sh.helm.release.v1.{RELEASE}.v… of {NAMESPACE}, or have Helm adopt the objects, with the chart and values "
        f"that they have: helm install {RELEASE} CHART -n {NAMESPACE} -f VALUES",
    )


@dataclass(frozen=True)
class ReleaseRecoveryStep:
    """Rolls back if there is evidence that the deployed revision fails; keeps a healthy one.

    `recovery`: restores the API if it is lost again, or refuses the rollback. `api_was_away`: whether the API was
    unreachable when the recovery began, so that no other Helm can be active. `wrong`: what the deployed kube-apiserver
    did wrong, though it was ready; "" if nothing is known.
    """

    examine: Callable[[], Diagnosis]
    recovery: Recovery
    hosts: Hosts
    helm: Helm
    kube: Kube
    clock: Clock
    timeout_seconds: float
    api_was_away: bool
    wrong: str = ""
    name: str = RELEASE

    def summary(self) -> str:
        return "roll its release back to the revision of the last-known-good checkpoint, if needed"

    def capture(self) -> None:
        """Nothing to undo: the revision that made the API unreachable is not wanted again."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

    def apply(self, note: Callable[[str], None]) -> None:
        history = self.helm.history(RELEASE, NAMESPACE)
        if not history:
            raise self._without_records()
        newest = history[-1]
        self._refuse_what_others_do(newest)
        of = cache(self._rendered)
        checkpoints = read_checkpoints(self.hosts, self.examine(), note)
        reason, guilty = self._reason(history, of, checkpoints, note)
        if not reason:
            note(
                f"release {RELEASE} stays at revision {newest.number}: it is healthy, or it is the checkpoint's "
                "revision"
            )
            return
        note(f"release {RELEASE}: {reason}")
        target = self._target(history, guilty, of, checkpoints, note)
        self._roll_back(target, note)
        workload = of(target)
        if workload is not None:
            take_out_edits(self.kube, workload, note)

    def _without_records(self) -> StepFailed:
        """Helm knows nothing of the release: it is gone, or its records alone are."""
        if lost := lost_records(self.kube):
            return StepFailed(lost.message, remedy=lost.remedy)
        return StepFailed(
            f"release {RELEASE} is not installed: only a standby pod serves the API",
            remedy="Install it again at the running version: upgrader run --to VERSION",
        )

    def _rendered(self, revision: Revision) -> Rendered | None:
        return rendered(self.helm.manifest(RELEASE, NAMESPACE, revision.number), NAMESPACE, RELEASE)

    def _refuse_what_others_do(self, newest: Revision) -> None:
        now = self.clock.now()
        if newest.pending and not self.api_was_away and not newest.abandoned(now, self.timeout_seconds):
            raise ReleaseLocked(
                f"release {RELEASE} has had status '{newest.status}' for {newest.age_seconds(now):.0f} s, although the "
                "API answers: another Helm process may be changing it",
                remedy="Wait until that process has ended, or run the same command again when the revision is "
                f"{newest.abandoned_after(self.timeout_seconds):.0f} s old.",
            )

    def _reason(
        self,
        history: tuple[Revision, ...],
        of: Callable[[Revision], Rendered | None],
        checkpoints: tuple[Checkpoint, ...],
        note: Callable[[str], None],
    ) -> tuple[str, Revision | None]:
        """Why the release can't stay as it is ("" if it can), and the revision that the evidence is about."""
        newest = history[-1]
        workload = of(newest)
        if newest.status != "deployed":
            return f"revision {newest.number} is {newest.status}", None
        if workload is None:
            return f"revision {newest.number} has no workload {RELEASE}", None
        live = self._live(workload)
        if live is None:
            return f"{workload.ref} does not exist", None
        pod = live["spec"]["template"]["spec"]
        unchanged = not contradictions(workload.content, pod_content(pod)) and not any(additions(pod, workload.pod))
        proven = unchanged and self._proven(history, of, checkpoints, workload)
        # What made the last-known-good is not to blame for a pod that fails now: an older one would only change more.
        guilty = newest if unchanged and not proven else None
        if self.wrong:
            return self.wrong, guilty
        verdict = self._evidence(workload, _SURE_CHECKS if proven else _FRESH_CHECKS, note)
        if verdict.kind is VerdictKind.HOLDS:
            return "", None
        # What is known to work may be slow, or wait for the port that its standby pod holds: that is the hand-over's
        # part.
        if proven and (verdict.kind is not VerdictKind.BROKEN or holds_port(verdict)):
            return "", None
        edited = "" if unchanged else " (edited by hand)"
        return f"{verdict.reason}{edited}", guilty

    def _proven(
        self,
        history: tuple[Revision, ...],
        of: Callable[[Revision], Rendered | None],
        checkpoints: tuple[Checkpoint, ...],
        workload: Rendered,
    ) -> bool:
        """Whether a checkpoint was made of what is live: of the very template, or else of its content."""
        reading = read_workload(self.kube, workload.ref)
        pods = reading.newest if reading is not None and reading.workload.observed else ()
        live = {pod.labels[key] for pod in pods for key in _HASHES if pod.labels.get(key)}
        known = {checkpoint.template_hash for checkpoint in checkpoints if checkpoint.template_hash}
        if live and known:
            return bool(live & known)
        match = matching(tuple(revision for revision in history if revision.good), of, checkpoints)
        return match is not None and match[0] == history[-1]

    def _live(self, workload: Rendered) -> KubeObject | None:
        return self.kube.get(WORKLOADS[workload.ref.kind], workload.ref.name, workload.ref.namespace)

    def _evidence(self, workload: Rendered, healthy_checks: int, note: Callable[[str], None]) -> Verdict:
        """The workload's state: certain as soon as it is broken twice in a row, or healthy `healthy_checks` times."""
        seen: list[Verdict] = []

        def unsure() -> str:
            seen.append(judge(self.kube, workload.ref))
            kind = seen[-1].kind
            needed = {VerdictKind.HOLDS: healthy_checks, VerdictKind.BROKEN: _SURE_CHECKS}.get(kind, 0)
            last = seen[-needed:] if needed else []
            sure = bool(last) and len(last) == needed and all(verdict.kind is kind for verdict in last)
            return "" if sure else seen[-1].reason or "not checked yet"

        what = f"{workload.ref} to be known as healthy or broken"
        wait_until(self.clock, unsure, seconds=EVIDENCE_SECONDS, what=what, note=note)
        return seen[-1]

    def _target(
        self,
        history: tuple[Revision, ...],
        guilty: Revision | None,
        of: Callable[[Revision], Rendered | None],
        checkpoints: tuple[Checkpoint, ...],
        note: Callable[[str], None],
    ) -> Revision:
        match = matching(tuple(item for item in history if item.good and item != guilty), of, checkpoints)
        if match is not None:
            revision, checkpoint = match
            note(f"the last-known-good generation {checkpoint.number} is from revision {revision.number}")
            return revision
        # A plain `helm upgrade` marks a revision as deployed as soon as it is written: what has just failed isn't good.
        fallback = last_good(history[:-1])
        if fallback is None:
            raise StepFailed(
                f"no revision of release {RELEASE} is known to have worked",
                remedy=f"Compare the revisions (helm history {RELEASE} -n {NAMESPACE}), then use `helm rollback`.",
            )
        note(f"no good revision matches a checkpoint on the controllers: using Helm's last good one, {fallback.number}")
        return fallback

    def _roll_back(self, target: Revision, note: Callable[[str], None]) -> None:
        """Write the good revision; the gates judge what comes of it, for Helm's own wait is as long as its timeout."""
        for attempt in range(1, _ROLLBACK_TRIES + 1):
            note(f"helm rollback {RELEASE} {target.number}")
            try:
                self.helm.rollback(RELEASE, NAMESPACE, target.number, timeout_seconds=self.timeout_seconds, wait=False)
            except (ApiUnavailable, HelmError) as error:
                lost = isinstance(error, ApiUnavailable) or is_refusal(error.message)
                if attempt == _ROLLBACK_TRIES or not lost:
                    raise
                # In place of a wrong pod that was stopped, its controller may have created another one.
                note(error.message)
                self.recovery.bring_api_back(note)
            else:
                return
