"""Which of a campaign's Jobs have ended, by one list and one watch for all of them.

What a watch can't tell, a reader of single Jobs has to find out: `ended` says when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Event, Thread
from typing import Any

from upgrader.errors import ApiError, UpgraderError
from upgrader.fleet.job_objects import CAMPAIGN, JOBS, has_ended
from upgrader.ports import Clock, KubeChanges, KubeObject

__all__ = ["JobWatch"]

_WATCH_SECONDS = 1800
"""After that, all is listed again: whatever a watch may have missed is not missed for longer."""
_SILENT_SECONDS = 180.0
"""Three bookmarks: what is older isn't known any more."""
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 60.0
"""Before the next request: the first, and after several times without an event."""


def _in_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="jobs", daemon=True).start()


class JobWatch:
    """Follows the Jobs of one campaign, from the first question on, in a thread that keeps no process from ending."""

    def __init__(
        self, kube: KubeChanges, clock: Clock, begin: Callable[[Callable[[], None]], None] = _in_thread
    ) -> None:
        """`begin` has the work done beside the caller, until `close`."""
        self._kube, self._clock, self._begin = kube, clock, begin
        self._campaign = self._version = ""
        self._jobs: dict[tuple[str, str], bool] = {}
        """Namespace and name → whether it has ended."""
        self._heard_at: float | None = None
        self._problem: ApiError | None = None
        self._pause = _PAUSE_SECONDS
        self._closed = Event()

    def ended(self, campaign: str, namespace: str, name: str) -> bool | None:
        """Whether a Job has ended. None: that isn't known, as there is no such Job, or the API server was silent.

        Raises ApiError if the rights are missing.
        """
        if not self._campaign:
            self._campaign = campaign
            self._begin(self._follow_on)
        problem = self._problem
        if problem is not None and problem.status == HTTPStatus.FORBIDDEN:
            raise problem
        silent = self._heard_at is None or self._clock.monotonic() - self._heard_at > _SILENT_SECONDS
        return None if silent or problem is not None else self._jobs.get((namespace, name))

    def close(self) -> None:
        """Ask for nothing more. The connection ends with the next event: about a minute later, if nothing happens."""
        self._closed.set()

    def follow(self) -> None:
        """One watch, to its end; and a list before it, unless the last watch broke off. Raises UpgraderError."""
        labels = f"{CAMPAIGN}={self._campaign}"
        if not self._version:
            jobs, self._version = self._kube.listed(JOBS, labels=labels, keep=_lean)
            self._jobs = {_key(job): has_ended(job) for job in jobs}
            self._heard()
        events = self._kube.changes(
            JOBS,
            labels=labels,
            version=self._version,
            timeout_seconds=_WATCH_SECONDS,
            silent_seconds=_SILENT_SECONDS,
        )
        try:
            for event in events:
                self._take(event)
                if self._closed.is_set():
                    return
        except ApiError as error:
            if error.status != HTTPStatus.GONE:
                raise
        self._version = ""

    def _follow_on(self) -> None:
        while not self._closed.is_set():
            try:
                self.follow()
            except UpgraderError as error:
                self._problem = error if isinstance(error, ApiError) else ApiError(error.message, remedy=error.remedy)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread: single Jobs are read
                self._problem = ApiError(f"{type(error).__name__}: {error}")
            self._closed.wait(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _take(self, event: KubeObject) -> None:
        job = event["object"]
        if event["type"] == "DELETED":
            self._jobs.pop(_key(job), None)
        elif event["type"] != "BOOKMARK":
            self._jobs[_key(job)] = has_ended(job)
        self._version, self._pause = str(job["metadata"]["resourceVersion"]), _PAUSE_SECONDS
        self._heard()

    def _heard(self) -> None:
        self._heard_at, self._problem = self._clock.monotonic(), None


def _key(job: KubeObject) -> tuple[str, str]:
    return job["metadata"].get("namespace", ""), job["metadata"]["name"]


def _lean(job: Mapping[str, Any]) -> KubeObject:
    """A thousand Jobs are several megabytes, of which only this is asked for."""
    metadata, status = job["metadata"], job.get("status") or {}
    return {
        "metadata": {"namespace": metadata.get("namespace", ""), "name": metadata["name"]},
        "status": {"conditions": status.get("conditions")},
    }
