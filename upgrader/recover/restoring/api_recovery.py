"""Restores the API over SSH, from the last-known-good generations that the controllers keep.

An API server that answers and is wrong counts as one that is down: its instances are replaced, and their pods deleted
through the API that is right again, as the kubelets would start them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from upgrader.errors import ApiError, HostError, RollbackFailed
from upgrader.gates.rollback_needs import refusal
from upgrader.ports import Clock, Hosts, Kube
from upgrader.recover.diagnosis.blamed_pods import newer_pods, with_blamed
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.examiner import read_api
from upgrader.recover.restoring.host_actions import HostActions
from upgrader.recover.restoring.next_actions import (
    Action,
    Attempts,
    StartStandby,
    StopInstances,
    next_actions,
    remember,
)
from upgrader.recover.restoring.retire_pod import retire
from upgrader.wait_and_retry import wait_until

__all__ = ["ApiRecovery"]

API_SECONDS = 300.0
"""How long the API may take to answer again: room for a controller that boots, and for every generation to be tried."""

_ANSWER_SECONDS = 5.0
"""How long the API is asked between two examinations of the controllers."""

_WRONG_SECONDS = 1.0
"""Pause between two examinations of an API server that is wrong: each of its answers does harm."""

_WRONG_EXAMINATIONS = 2
"""So many for one that is found wrong by what it answers: it may be starting."""

STOPS = 5
"""How often an instance is stopped: if another generation in its place is refused the same, it isn't the instance."""

_CONNECTIONS = 10
"""New connections that all lead to a wrong instance, though its replacement shares the address: one in a thousand."""

_SAME_EXAMINATIONS = 3
"""Consecutive examinations after which a replacement that is refused the same is one."""

_HOPELESS_EXAMINATIONS = 3
"""Consecutive examinations that must find that manual action is required: one may be of a machine that is booting."""


class ApiRecovery:
    """`ports.Recovery`. `examine` reads the controllers that may be recovered, and the API; `machines` the controllers
    alone. Both change nothing.
    """

    def __init__(
        self,
        examine: Callable[[], Diagnosis],
        *,
        machines: Callable[[], Diagnosis],
        hosts: Hosts,
        kube: Kube,
        clock: Clock,
        admitted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`admitted` tells whether kube-apiserver's pods were admitted before the run."""
        self._examine = examine
        self._examine_machines = machines
        self._admitted = admitted
        self._hosts = HostActions(hosts)
        self._kube = kube
        self._clock = clock

    def bring_api_back(self, note: Callable[[str], None]) -> None:
        """See `ports.Recovery`. Units that don't run are started on every controller, also where the API answers."""
        self._bring_back(self._examine, note, _WRONG_EXAMINATIONS)

    def blames_credentials(self) -> bool:
        """See `ports.Recovery`. As many examinations in a row must agree as for a recovery that has nothing to do."""
        for examination in range(_HOPELESS_EXAMINATIONS):
            if examination:
                self._clock.sleep(_WRONG_SECONDS)
            if not self._examine().blames_credentials:
                return False
        return True

    def replace_newer(self, since: datetime, why: str, note: Callable[[str], None], *, compared: bool = False) -> bool:
        """See `ports.Recovery`. What is created in their place meanwhile isn't replaced: it serves no one yet.

        The API isn't asked while they run: that they are too slow is known, and each request takes seconds. Nor are
        they deleted first, so that they drain: in a lab of ten requests a second, three failed in each second that such
        a pod still served, and six were cut when it was stopped.
        """
        pods: set[str] | None = None

        def examine() -> Diagnosis:
            nonlocal pods
            seen = self._examine_machines()
            pods = set(newer_pods(seen, since)) if pods is None else pods
            blamed = with_blamed(seen, pods, why)
            return blamed if blamed != seen else self._examine()

        self._bring_back(examine, note, 1, compared=compared)
        if not pods:
            note("no running kube-apiserver pod belongs to the step that is being rolled back")
        return bool(pods)

    def _bring_back(
        self,
        examine: Callable[[], Diagnosis],
        note: Callable[[str], None],
        wrong_examinations: int,
        *,
        compared: bool = False,
    ) -> None:
        """`wrong_examinations`: how many in a row must find an API server wrong before anything is done about it.
        `compared`: stop an instance only once another one accepts what it refuses, whatever is known of it.
        """
        notes = _Notes(note)
        began, attempts, hopeless, wrong, same = self._clock.monotonic(), Attempts(), 0, 0, 0
        replaced = _Replaced()
        while True:
            diagnosis = examine()
            for finding in diagnosis.findings:
                if finding.severity == "error":
                    notes.add(finding.title)
            now = self._clock.monotonic()
            wrong = wrong + 1 if diagnosis.wrong else 0
            attempts = remember(attempts, diagnosis.controllers, (), now)
            actions: tuple[Action, ...] = ()
            if not 0 < wrong < wrong_examinations:
                actions = next_actions(
                    diagnosis.controllers, attempts, now, api_answers=diagnosis.api.answers, replace=wrong > 0
                )
            if any(isinstance(action, StopInstances) and (compared or not action.compared) for action in actions):
                same = 0 if self._some_accept(diagnosis.release) else same + 1
                actions = tuple(action for action in actions if not (same and isinstance(action, StopInstances)))
            attempts = self._act(actions, attempts, now, notes)
            replaced.add(actions)
            self._delete(replaced, notes)
            if diagnosis.serves:
                return
            if wrong and (replaced.stops > STOPS or same >= _SAME_EXAMINATIONS):
                self._take_back(replaced, notes)
                raise _in_vain(diagnosis)
            nothing_left = wrong >= wrong_examinations and not actions and not _has_standby(diagnosis)
            hopeless = hopeless + 1 if diagnosis.blocked or nothing_left else 0
            reached = all(controller.facts is not None for controller in diagnosis.controllers)
            if self._clock.monotonic() - began >= API_SECONDS or (reached and hopeless >= _HOPELESS_EXAMINATIONS):
                raise _failed(diagnosis, attempts, self._clock.monotonic() - began)
            if wrong:
                self._clock.sleep(_WRONG_SECONDS)
                continue
            notes.add(f"waiting up to {API_SECONDS:.0f} s for the API to answer")
            if self._answers_soon() and not replaced.pods:
                note(f"the API server answers again, {self._clock.monotonic() - began:.0f} s after the first check")
                return

    def _act(self, actions: tuple[Action, ...], attempts: Attempts, now: float, notes: _Notes) -> Attempts:
        for action in actions:
            # Noted before it is done: the journal must name whatever may have been changed.
            notes.add(str(action), again=True)
            try:
                self._hosts.carry_out(action)
            except HostError as error:
                notes.add(error.message)
                if isinstance(action, StartStandby):
                    continue  # it isn't the generation's fault: the next pass may put it in place
            attempts = remember(attempts, (), (action,), now)
        return attempts

    def _delete(self, replaced: _Replaced, notes: _Notes) -> None:
        """Delete what was stopped. What can't be deleted yet is started again, and tried again after the next stop."""
        for pod in sorted(replaced.pods - replaced.deleted):
            try:
                notes.add(f"deleting pod {pod}, so the kubelet doesn't restart it")
                retire(self._kube, pod)
            except ApiError as error:
                notes.add(error.message)
            else:
                replaced.deleted.add(pod)

    def _some_accept(self, release: str) -> bool:
        """Whether a new connection meets an instance that refuses nothing: the standby pod is one of them by now."""
        for _ in range(_CONNECTIONS):
            self._kube.reconnect()
            if refusal(self._kube, release, admitted=self._admitted()) is None:
                return True
        return False

    def _take_back(self, replaced: _Replaced, notes: _Notes) -> None:
        """Remove the standby pods that were started beside instances that were not to blame."""
        for action in replaced.started:
            try:
                notes.add(f"{action.host.name}: deactivating the standby pod: it rejects the same requests")
                self._hosts.deactivate(action.host, action.path)
            except HostError as error:
                notes.add(error.message)

    def _answers_soon(self) -> bool:
        return not wait_until(self._clock, self._silent, seconds=_ANSWER_SECONDS, interval_seconds=0.5)

    def _silent(self) -> str:
        seen = read_api(self._kube)
        return "" if seen.answers and not seen.refuses else "an answer"


_WRONG_REMEDY = (
    "Manual action required. On a controller, put a correct kube-apiserver manifest into /etc/kubernetes/manifests "
    "(after `upgrader adopt`, kubeadm's own is in /etc/kubernetes/upgrader/adopted). Stop the wrong pod there (crictl "
    "stopp). Then run `helm rollback kube-apiserver -n kube-system`"
)


@dataclass
class _Replaced:
    """What a recovery has done to replace wrong instances."""

    started: list[StartStandby] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    """The names of the pods that were stopped."""
    deleted: set[str] = field(default_factory=set)
    _stops: Counter[str] = field(default_factory=Counter)
    """By controller."""

    @property
    def stops(self) -> int:
        """How often pods of the same controller were stopped, at most."""
        return max(self._stops.values(), default=0)

    def add(self, actions: tuple[Action, ...]) -> None:
        """Count what was done in one pass."""
        for action in actions:
            if isinstance(action, StartStandby):
                self.started.append(action)
            elif isinstance(action, StopInstances):
                self.pods.update(action.pods.values())
                self._stops[action.host.name] += 1


class _Notes:
    """Notes each thing once: the same is found in each examination."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._noted: set[str] = set()

    def add(self, text: str, *, again: bool = False) -> None:
        if again or text not in self._noted:
            self._noted.add(text)
            self._note(text)


def _has_standby(diagnosis: Diagnosis) -> bool:
    return any(controller.active is not None for controller in diagnosis.controllers)


def _in_vain(diagnosis: Diagnosis) -> RollbackFailed:
    return RollbackFailed(
        "a standby pod of another generation rejects the same requests, so kube-apiserver's pod is not the cause; the "
        f"standby pod was stopped again: {diagnosis.wrong}",
        remedy="Manual action required: on the controllers, compare the files in /etc/kubernetes/pki, the clocks, and "
        "the clients' certificates (kubeadm certs check-expiration).",
    )


def _failed(diagnosis: Diagnosis, attempts: Attempts, seconds: float) -> RollbackFailed:
    why = diagnosis.blocked or diagnosis.api.answer
    lines = [f"the API did not answer again within {seconds:.0f} s: {why}"]
    if diagnosis.wrong and not _has_standby(diagnosis):
        lines = ["every checkpoint on the controllers was made from the faulty pods: none can replace them"]
    elif diagnosis.wrong:
        lines = [f"kube-apiserver still did not work correctly after {seconds:.0f} s"]
    lines += [
        f"{host}: kube-apiserver of generation {number} was started, but did not answer"
        for host, number in attempts.standbys
    ]
    errors = [finding for finding in diagnosis.findings if finding.severity == "error"]
    lines += [finding.title for finding in errors]
    if diagnosis.controllers and all(controller.serves for controller in diagnosis.controllers):
        lines.append("kube-apiserver answers on every controller, but the API can't be reached from here")
    remedies = [_WRONG_REMEDY] if diagnosis.wrong else [finding.remedy for finding in errors if finding.remedy]
    return RollbackFailed(
        "\n".join(lines),
        remedy=remedies[0]
        if remedies
        else "Check the controllers with `upgrader recover --dry-run`, then run the same command again.",
    )
