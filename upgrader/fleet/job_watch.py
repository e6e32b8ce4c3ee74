"""Which of a campaign's Jobs have ended, by one list and one watch for all of them.

What a watch can't tell, a reader of single Jobs has to find out: `ended` says when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from threading import Event, Thread
from typing import Any

from upgrader.errors import ApiError, UpgraderError
from upgrader.fleet.job_objects import CAMPAIGN, JOBS, began_at, has_ended
from upgrader.ports import Clock, KubeChanges, KubeObject

__all__ = ["JobWatch"]

_WATCH_SECONDS = 1800
"""Of a watch that goes on telling; after any watch, all is listed."""
_SILENT_SECONDS = 180.0
"""Of a watch that tells nothing. Where no Job changes, there may be no bookmark either; but its connection may be dead,
or something in between may hold events back. Many load balancers drop connections that were idle for longer, and some
tell neither end.
"""
_DOUBTED_SECONDS = 60.0
"""The same, once a list has shown the end of a Job that the watch before it had not told."""
_UNKNOWN_SECONDS = 300.0
"""What is older isn't known any more: by then, it should have been listed again."""
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 60.0
"""Before the next list: the first, and after several that failed, or watches that ended early without an event."""


def _in_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="jobs", daemon=True).start()


class JobWatch:
    """Follows the Jobs of one campaign, in a thread that keeps no process from ending: from the first question on, and
    for as long as there are questions.
    """

    def __init__(
        self, kube: KubeChanges, clock: Clock, begin: Callable[[Callable[[], None]], None] = _in_thread
    ) -> None:
        """`begin` has the work done beside the caller, until `close`."""
        self._kube, self._clock, self._begin = kube, clock, begin
        self._campaign = ""
        self._jobs: dict[tuple[str, str], KubeObject] = {}
        """Namespace and name → what `_lean` keeps of it."""
        self._heard_at: float | None = None
        self._problem: ApiError | None = None
        self._patience, self._pause = _SILENT_SECONDS, _PAUSE_SECONDS
        self._asked, self._closed = Event(), Event()

    def ended(self, campaign: str, namespace: str, name: str) -> bool | None:
        """Whether a Job has ended. None: that isn't known, as there is no such Job, or the API server didn't answer.

        Raises ApiError if the rights are missing.
        """
        self._asked.set()
        if not self._campaign:
            self._campaign = campaign
            self._begin(self._follow_on)
        problem = self._problem
        if problem is not None and problem.status == HTTPStatus.FORBIDDEN:
            raise problem
        old = self._heard_at is None or self._clock.monotonic() - self._heard_at > _UNKNOWN_SECONDS
        job = self._jobs.get((namespace, name))
        return None if old or problem is not None or job is None else has_ended(job)

    def began(self, namespace: str, name: str) -> datetime | None:
        """When a Job began, as `began_at`; None also if it isn't known."""
        return began_at(self._jobs.get((namespace, name)))

    def close(self) -> None:
        """Ask for nothing more. The connection ends with the next event, or after three minutes without any."""
        self._closed.set()
        self._asked.set()

    def follow(self) -> None:
        """One list, and one watch from there to its end. Raises UpgraderError if nothing can be listed, or the right to
        watch is missing.
        """
        labels = f"{CAMPAIGN}={self._campaign}"
        jobs, version = self._kube.listed(JOBS, labels=labels, keep=_lean)
        found = {_key(job): job for job in jobs}
        if any(has_ended(job) and not has_ended(self._jobs.get(key, job)) for key, job in found.items()):
            self._patience = _DOUBTED_SECONDS
        self._jobs = found
        self._heard()
        try:
            for event in self._kube.changes(
                JOBS, labels=labels, version=version, timeout_seconds=_WATCH_SECONDS, silent_seconds=self._patience
            ):
                self._take(event)
                if self._closed.is_set():
                    return
        except ApiError as error:  # whatever it ended in, the next list says what there is
            if error.status == HTTPStatus.FORBIDDEN:
                raise

    def _follow_on(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._closed.is_set():
                return
            begun = self._clock.monotonic()
            try:
                self.follow()
            except UpgraderError as error:
                self._problem = error if isinstance(error, ApiError) else ApiError(error.message, remedy=error.remedy)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread: single Jobs are read
                self._problem = ApiError(f"{type(error).__name__}: {error}")
            if self._clock.monotonic() - begun >= _DOUBTED_SECONDS:
                self._pause = _PAUSE_SECONDS
                continue
            self._closed.wait(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _take(self, event: KubeObject) -> None:
        job = event["object"]
        if event["type"] == "DELETED":
            self._jobs.pop(_key(job), None)
        elif event["type"] != "BOOKMARK":
            self._jobs[_key(job)] = _lean(job)
        self._patience, self._pause = _SILENT_SECONDS, _PAUSE_SECONDS
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
        "status": {"conditions": status.get("conditions"), "startTime": status.get("startTime")},
    }
