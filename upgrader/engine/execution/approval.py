"""Waits for a person to approve a step: the request is in a ConfigMap of the cluster, the answer there, in a file, or
typed on the run's terminal.

An object of its own, as the run writes its Lease and its Secrets anew all the time; in the cluster, because the
approver isn't at the machine that runs it. A user who may change it may approve: RBAC decides, and the API server's
audit log has the user's name. The file is for a user of that machine without credentials for the API.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from upgrader.engine.execution.stop_request import StopRequest
from upgrader.errors import ApiError, Interrupted, UsageError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.model.event import ApprovalRequested, Event, Note, StepApproved
from upgrader.ports import Clock, Kube, KubeObject

__all__ = ["NAME", "NAMESPACE", "approve", "await_approval"]

NAMESPACE, NAME = "kube-system", "upgrader-approval"
_APPROVED, _BY, _REASON = (f"upgrader.io/{name}" for name in ("approved", "approved-by", "approved-because"))
_POLL_SECONDS = 2.0
_LOOKS = 20
"""How often what is typed is looked at while the API is asked once."""
_MOST_CHARACTERS = 1000


def await_approval(
    run: str,
    step: str,
    seconds: float,
    *,
    kube: Kube,
    clock: Clock,
    emit: Callable[[Event], None],
    stop: StopRequest,
    folder: Path | None = None,
    typed: Callable[[], StepApproved | None] | None = None,
) -> StepApproved:
    """Ask for an approval of this step, and return it. An API that doesn't answer approves nothing.

    In the run's `folder`, a file `approve-STEP` with `NAME: WHY` is an approval; None: there is no folder. `typed`
    returns the approval typed on the run's terminal, and raises Interrupted after a refusal; None: there is no
    terminal.

    Raises Interrupted after so many seconds without one, and where the run was asked to stop.
    """
    emit(ApprovalRequested(step, seconds))
    deadline, told = clock.monotonic() + seconds, ""
    try:
        while True:
            stop.check(safe=True)
            approval, problem = _in_file(folder / f"approve-{step}", step) if folder else (None, "")
            if approval is None:
                approval, said = _answer(kube, run, step)
                problem = problem or said
            if approval is not None:
                return approval
            if problem and problem != told:
                emit(Note(f"{step}: {problem}"))
            told = problem
            if clock.monotonic() >= deadline:
                raise Interrupted(
                    f"no one approved step {step} within {seconds:.0f} s"
                    + (f"; the last answer: {problem}" if problem else ""),
                    remedy="The step was not started; earlier steps are healthy. Run `upgrader resume` to ask again, "
                    "or `upgrader rollback` to undo them.",
                )
            approval = _pause(clock, stop, typed)
            if approval is not None:
                return approval
    finally:
        with suppress(ApiError):
            kube.delete(CONFIG_MAPS, NAME, NAMESPACE)


def _pause(clock: Clock, stop: StopRequest, typed: Callable[[], StepApproved | None] | None) -> StepApproved | None:
    """Until the API is asked again. A typed answer doesn't wait for that."""
    if typed is None:
        clock.sleep(_POLL_SECONDS)
        return None
    for _ in range(_LOOKS):
        stop.check(safe=True)
        approval = typed()
        if approval is not None:
            return approval
        clock.sleep(_POLL_SECONDS / _LOOKS)
    return None


def approve(kube: Kube, step: str, by: str, reason: str) -> str:
    """Approve the step that a run waits for; returns the run. Raises UsageError if no run waits for this step."""
    found = kube.get(CONFIG_MAPS, NAME, NAMESPACE)
    asked = (found.get("data") or {}) if found else {}
    if found is None or not asked.get("step"):
        raise UsageError(
            "no run of this cluster is waiting for an approval",
            remedy="`upgrader status` shows what the newest run does.",
        )
    if asked["step"] != step:
        raise UsageError(
            f"run {asked.get('run')} waits for the approval of step {asked['step']}, not of {step}",
            remedy="Review that step, then approve it by its name.",
        )
    notes = {_APPROVED: _subject(asked.get("run", ""), step), _BY: by, _REASON: reason}
    version = found["metadata"]["resourceVersion"]
    kube.patch(CONFIG_MAPS, NAME, {"metadata": {"annotations": notes, "resourceVersion": version}}, NAMESPACE)
    return str(asked.get("run"))


def _answer(kube: Kube, run: str, step: str) -> tuple[StepApproved | None, str]:
    """The approval, or what keeps an answer from being one; "" where there is none."""
    try:
        found = kube.get(CONFIG_MAPS, NAME, NAMESPACE)
        if found is None or _subject(**_asked(found)) != _subject(run, step):
            kube.delete(CONFIG_MAPS, NAME, NAMESPACE)  # of a run that was killed while it waited
            kube.create(CONFIG_MAPS, _manifest(run, step), NAMESPACE)
            return None, ""
    except ApiError as error:
        return None, f"can't read whether it is approved: {error.message}"
    notes = found["metadata"].get("annotations") or {}
    approved, by, reason = (str(notes.get(key, "")).strip()[:_MOST_CHARACTERS] for key in (_APPROVED, _BY, _REASON))
    if not approved:
        return None, ""
    if approved != _subject(run, step):
        return None, f"the approval is for {approved}, not for {_subject(run, step)}"
    if not by or not reason:
        return None, f"the approval lacks the approver or the reason: annotations {_BY} and {_REASON}"
    return StepApproved(step, by, reason), ""


def _in_file(file: Path, step: str) -> tuple[StepApproved | None, str]:
    """The same of a file. Who may write the run's folder may approve."""
    if not file.is_file():
        return None, ""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(2 * _MOST_CHARACTERS)
    except OSError as error:
        return None, f"{file} can't be read: {error.strerror}"
    by, _, reason = (" ".join(part.split())[:_MOST_CHARACTERS] for part in text.partition(":"))
    if not by or not reason:
        return None, f"{file} must have one line with the approver and the reason: `NAME: WHY`"
    return StepApproved(step, by, reason), ""


def _asked(found: KubeObject) -> dict[str, str]:
    data = found.get("data") or {}
    return {"run": data.get("run", ""), "step": data.get("step", "")}


def _subject(run: str, step: str) -> str:
    return f"{run}/{step}"


def _manifest(run: str, step: str) -> dict[str, object]:
    subject = _subject(run, step)
    command = (
        f"kubectl -n {NAMESPACE} annotate configmap {NAME} '{_APPROVED}={subject}' '{_BY}=YOUR NAME' '{_REASON}=REASON'"
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "upgrader"},
        },
        "data": {"run": run, "step": step, "approve-with": command},
    }
