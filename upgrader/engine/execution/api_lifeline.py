"""Makes sure that the API answers and accepts what a rollback needs: waits for it, and recovers it past a deadline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import isfinite

from upgrader.errors import ApiError, CredentialsRefused, Interrupted, RollbackFailed, UpgraderError
from upgrader.gates.api_absence import api_problem
from upgrader.gates.rollback_needs import REFUSALS, Refusal, lasting_refusal, refusal
from upgrader.model.event import Note, RecoveryEnded, RecoveryStarted
from upgrader.ports import Clock, Kube, Recovery, Reporter
from upgrader.system_errors import refusals_fail_the_step
from upgrader.wait_and_retry import wait_until

__all__ = ["API_RETURNS_SECONDS", "ApiLifeline"]

API_RETURNS_SECONDS = 300.0
"""How long to wait for an API without recovering it: a rebooting controller needs about one minute."""

_REFUSED_PAUSE_SECONDS = 1.0

_EXAMINE_SECONDS = 6.0
"""Pause between two examinations of the controllers while an undo waits: each is a login to every controller."""

_REMEDY = (
    "Restore the API (upgrader recover; or check kubelet, etcd and the kube-apiserver container's log on the "
    "controllers), then run the same command again."
)

_RENEW = (
    "Renew the credentials: log in again, or get a new kubeconfig (on a controller: /etc/kubernetes/admin.conf). Then "
    "run `upgrader resume`: it continues this run. If a new login is refused as well, the step may have broken "
    "logins of this kind (--oidc-issuer-url, --authentication-config, a webhook): resume with admin.conf."
)

_NEW_REFUSE = "kube-apiserver refuses the run's credentials, while it accepts the cluster's own"


class ApiLifeline:
    """Watches over the API server, and recovers it.

    `patience_seconds` is how long it may be unreachable before `recovery` is called; infinity means never. `admitted`
    tells whether kube-apiserver's pods were admitted before the run.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        clock: Clock,
        reporter: Reporter,
        recovery: Recovery,
        patience_seconds: float,
        admitted: Callable[[], bool],
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._reporter = reporter
        self._recovery = recovery
        self._patience_seconds = patience_seconds
        self._admitted = admitted
        self._recovered = False

    @property
    def holds(self) -> bool:
        """Whether the API is ready now, and accepts what a rollback needs."""
        return not api_problem(self._kube) and refusal(self._kube, admitted=self._admitted()) is None

    @property
    def recovered(self) -> bool:
        """Whether it has recovered the API, for which it may have rolled `RECOVERED_RELEASE` back."""
        return self._recovered

    @property
    def recovers(self) -> bool:
        """Whether it may change anything on the controllers."""
        return isfinite(self._patience_seconds)

    def secure(self, *, overdue: bool, release: str = "", since: datetime | None = None) -> None:
        """Return once the API is ready, and accepts what a rollback needs.

        `overdue` means that the run has waited long enough already. `release` names a Helm release in kube-system that
        is known to be installed; `since`: as in `check_credentials`. Raises RollbackFailed when the API doesn't become
        ready, or can't be recovered, and Interrupted where only the credentials are at fault.
        """
        refused = self._refused(release)
        if refused is None:
            self._await_ready(overdue=overdue)
            refused = self._refused(release)
        if refused is None:
            return
        if refused.credentials and self.check_credentials(since):
            return
        problem = f"the API server answers, but rejects requests that a rollback needs: {refused.text}"
        if not self.recovers:
            raise RollbackFailed(problem, remedy=_REMEDY)
        self._recover(problem, self._bring_back)

    def check_credentials(self, since: datetime | None = None) -> bool:
        """Raise Interrupted where the API server works, and refuses the kubeconfig's credentials time after time.

        No rollback would be accepted, and there is nothing to recover: the run is continued with other credentials.
        But where a step has replaced kube-apiserver's own pods, which is known of those that were created `since`, the
        step may have broken this kind of login. An earlier generation that accepts the same credentials proves it, and
        takes their place. Whether it did.
        """
        for attempt in range(REFUSALS):
            if attempt:
                self._clock.sleep(_REFUSED_PAUSE_SECONDS)
                self._kube.reconnect()  # another instance may accept them
            try:
                self._kube.raw("/readyz")
                return False
            except CredentialsRefused as error:
                refused = error
            except ApiError:
                return False
        if self._recovery.blames_credentials():
            if since is not None and self.replace_newer(since, f"{_NEW_REFUSE}: {refused.message}", compared=True):
                return True
            raise Interrupted(
                "the API server answers, but no longer accepts the run's credentials. Nothing is rolled back or "
                f"recovered because of that: the run can continue once they are renewed. {refused.message}",
                remedy=_RENEW,
            )
        return False

    def replace_wrong(self, refused: str, since: datetime | None = None) -> bool:
        """Replace the instances that the controllers themselves know to be wrong, if any, after an undo was `refused`.

        Whether all that is wrong was replaced. A failure is reported, and no reason to give up: the next attempt may
        meet an instance that accepts it. `since`: as in `check_credentials`.
        """
        if not self.recovers:
            return False
        if self.check_credentials(since):
            return True
        try:
            self._recover(f"an API server rejected the rollback: {refused}", self._bring_back)
        except RollbackFailed:
            return False
        return True

    def replace_newer(self, since: datetime, why: str, *, compared: bool = False) -> bool:
        """Replace kube-apiserver's own pods that were created since then, as a rollback doesn't get through them.

        `compared`: only if what takes their place is known to accept it. Whether there were any, and they were
        replaced. A failure is reported, and no reason to give up, as after `replace_wrong`.
        """
        found = False

        def work() -> None:
            nonlocal found
            found = self._recovery.replace_newer(since, why, self._note, compared=compared)

        try:
            self._recover(why, work)
        except RollbackFailed:
            return False
        return found

    def _refused(self, release: str) -> Refusal | None:
        return lasting_refusal(self._kube, self._clock, release, admitted=self._admitted())

    def guard(self) -> Callable[[], None] | None:
        """A check for as long as an undo waits, where the API was recovered before; None where there is no need.

        In place of a wrong pod that was stopped, its controller creates another one until it has read the rollback, and
        may be kept from reading it by just that one.
        """
        if not self._recovered:
            return None
        examined = self._clock.monotonic()

        def check() -> None:
            nonlocal examined
            if self._clock.monotonic() - examined < _EXAMINE_SECONDS:
                return
            try:
                with refusals_fail_the_step(None):
                    self._bring_back()
            except UpgraderError as error:
                self._note(error.message)  # what waits has a deadline of its own, and ends with it
            examined = self._clock.monotonic()

        return check

    def _await_ready(self, *, overdue: bool) -> None:
        problem = api_problem(self._kube)
        recovers = self.recovers
        if problem and not (overdue and recovers):
            seconds = self._patience_seconds if recovers else API_RETURNS_SECONDS
            self._note(
                f"the API server is not ready: waiting up to {seconds:.0f} s for it before continuing ({problem})"
            )
            problem = wait_until(self._clock, lambda: api_problem(self._kube), seconds=seconds)
        if not problem:
            return
        if not recovers:
            message = f"the API server has not been ready for {API_RETURNS_SECONDS:.0f} s: {problem}"
            raise RollbackFailed(message, remedy=_REMEDY)
        self._recover(problem, self._bring_back)

    def _bring_back(self) -> None:
        self._recovery.bring_api_back(self._note)

    def _recover(self, problem: str, work: Callable[[], None]) -> None:
        began = self._clock.monotonic()
        self._reporter.emit(RecoveryStarted(problem))
        try:
            with refusals_fail_the_step(None):
                work()
        except UpgraderError as error:
            self._reporter.emit(RecoveryEnded(False, self._clock.monotonic() - began, error.message))
            raise RollbackFailed(
                f"the API server could not be recovered: {error.message}", remedy=error.remedy or _REMEDY
            ) from error
        self._recovered = True
        self._reporter.emit(RecoveryEnded(True, self._clock.monotonic() - began))

    def _note(self, text: str) -> None:
        self._reporter.emit(Note(text))
