"""Restores the API over SSH, from the last-known-good generations that the controllers keep."""

from __future__ import annotations

from collections.abc import Callable

from upgrader.errors import HostError, RollbackFailed
from upgrader.ports import Clock, Hosts, Kube
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.examiner import read_api
from upgrader.recover.restoring.actions import Attempts, StartStandby, next_actions, remember
from upgrader.recover.restoring.host_actions import HostActions
from upgrader.wait_and_retry import wait_until

__all__ = ["ApiRecovery"]

API_SECONDS = 300.0
"""How long the API may take to answer again: room for a controller that boots, and for every generation to be tried."""

_ANSWER_SECONDS = 5.0
"""How long the API is asked between two examinations of the controllers."""

_HOPELESS_EXAMINATIONS = 3
"""Consecutive examinations that must find that manual action is required: one may be of a machine that is booting."""


class ApiRecovery:
    """`ports.Recovery`. `examine` reads the controllers that may be recovered, and the API; it changes nothing."""

    def __init__(self, examine: Callable[[], Diagnosis], *, hosts: Hosts, kube: Kube, clock: Clock) -> None:
        self._examine = examine
        self._machines = HostActions(hosts)
        self._kube = kube
        self._clock = clock

    def bring_api_back(self, note: Callable[[str], None]) -> None:
        """See `ports.Recovery`. Units that don't run are started on every controller, also where the API answers."""
        notes = _Notes(note)
        began, attempts, hopeless = self._clock.monotonic(), Attempts(), 0
        while True:
            diagnosis = self._examine()
            for finding in diagnosis.findings:
                if finding.severity == "error":
                    notes.add(finding.title)
            now = self._clock.monotonic()
            attempts = remember(attempts, diagnosis.controllers, (), now)
            attempts = self._act(diagnosis, attempts, now, notes)
            if diagnosis.api.answers:
                return
            hopeless = hopeless + 1 if diagnosis.blocked else 0
            reached = all(controller.facts is not None for controller in diagnosis.controllers)
            if self._clock.monotonic() - began >= API_SECONDS or (reached and hopeless >= _HOPELESS_EXAMINATIONS):
                raise _failed(diagnosis, attempts, self._clock.monotonic() - began)
            if self._answers_soon():
                note(f"the API server answers again, {self._clock.monotonic() - began:.0f} s after the first check")
                return

    def _act(self, diagnosis: Diagnosis, attempts: Attempts, now: float, notes: _Notes) -> Attempts:
        for action in next_actions(diagnosis.controllers, attempts, now, api_answers=diagnosis.api.answers):
            # Noted before it is done: the journal must name whatever may have been changed.
            notes.add(str(action), again=True)
            try:
                self._machines.carry_out(action)
            except HostError as error:
                notes.add(error.message)
                if isinstance(action, StartStandby):
                    continue  # it isn't the generation's fault: the next pass may put it in place
            attempts = remember(attempts, (), (action,), now)
        return attempts

    def _answers_soon(self) -> bool:
        return not wait_until(self._clock, self._silent, seconds=_ANSWER_SECONDS, interval_seconds=0.5)

    def _silent(self) -> str:
        return "" if read_api(self._kube).answers else "an answer"


class _Notes:
    """Notes each thing once: the same is found in each examination."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._noted: set[str] = set()

    def add(self, text: str, *, again: bool = False) -> None:
        if again or text not in self._noted:
            self._noted.add(text)
            self._note(text)


def _failed(diagnosis: Diagnosis, attempts: Attempts, seconds: float) -> RollbackFailed:
    lines = [f"the API did not answer again within {seconds:.0f} s: {diagnosis.blocked or diagnosis.api.answer}"]
    lines += [f"{host}: generation {number} was started, and did not serve" for host, number in attempts.standbys]
    errors = [finding for finding in diagnosis.findings if finding.severity == "error"]
    lines += [finding.title for finding in errors]
    if diagnosis.controllers and all(controller.serves for controller in diagnosis.controllers):
        lines.append("kube-apiserver serves on every controller, but the API can't be reached from here")
    remedies = [finding.remedy for finding in errors if finding.remedy]
    return RollbackFailed(
        "\n".join(lines),
        remedy=remedies[0]
        if remedies
        else "Check what is wrong on the controllers (upgrader recover --dry-run), then run again.",
    )
