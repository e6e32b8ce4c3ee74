"""The watch of a campaign's Jobs: when it says that it doesn't know, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import until
from upgrader.errors import ApiError, ApiUnavailable, ConfigError
from upgrader.fleet.job_objects import JOBS
from upgrader.fleet.job_watch import JobWatch
from upgrader.ports import Kind, KubeObject

CAMPAIGN, SPACE = "20260101T000000-fleet-v1.37.1", "fleet-a"
ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


class Watched(FakeKube):
    """An API whose etcd tells of no changes of other kinds: a watch of Jobs that don't change tells nothing."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.tells_progress = False
        self.clock = clock
        self.swallows = False
        """Whether something in between keeps all events back."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens during each watch."""
        self.breaks: ApiError | None = None
        """What each watch ends in."""
        self.waited: list[float] = []
        """For how long the silence of each watch was waited out."""

    def changes(self, kind: Kind, namespace: str = "", *, silent_seconds: float, **more: Any) -> Iterator[KubeObject]:
        self.waited.append(silent_seconds)
        self.clock.sleep(silent_seconds)
        self.meanwhile()
        events = super().changes(kind, namespace, silent_seconds=silent_seconds, **more)
        yield from () if self.swallows else events
        if self.breaks:
            raise self.breaks


class Site:
    """A Job `one` of a campaign, and a watch that goes on only when it is told to."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = Watched(self.clock)
        self.put("one")
        self.watch = JobWatch(self.kube, self.clock, lambda _: None)
        assert self.ended() is None

    def put(self, name: str, **status: object) -> None:
        metadata = {"name": name, "namespace": SPACE, "labels": {"upgrader.io/campaign": CAMPAIGN}}
        self.kube.put(JOBS, {"metadata": metadata, "status": status}, SPACE)

    def ended(self, name: str = "one") -> bool | None:
        return self.watch.ended(CAMPAIGN, SPACE, name)

    def lists(self) -> int:
        return self.kube.all_asked.count("list jobs")


@pytest.fixture
def site() -> Site:
    return Site()


def test_silence_is_no_doubt(site: Site) -> None:
    """Where no Job changes, a watch has not even a bookmark for hours: what was listed is known until the next list,
    which follows three minutes later.
    """
    for _ in range(80):
        site.watch.follow()
        assert site.ended() is False and site.ended("other") is None
    assert site.clock.monotonic() == 4 * 3600 and site.lists() == 80


def test_old_answer_is_none(site: Site) -> None:
    """What was heard more than five minutes ago isn't known any more, as nothing else says that it holds, until it is
    listed again.
    """
    site.watch.follow()
    site.clock.sleep(120)
    assert site.ended() is False
    site.clock.sleep(1)
    assert site.ended() is None
    site.watch.follow()
    assert site.ended() is False


def test_end_that_a_watch_does_not_tell(site: Site) -> None:
    """A connection that is dead, or a proxy that swallows events, delays the first end by three minutes, and each later
    one by a minute, until a watch tells something.
    """
    site.kube.swallows = True
    site.put("two")
    site.watch.follow()
    site.put("one", **ENDED)
    site.watch.follow()
    assert site.ended() is True and site.ended("two") is False
    site.watch.follow()
    site.put("two", **ENDED)
    site.watch.follow()
    assert site.ended("two") is True
    site.kube.swallows, site.kube.meanwhile = False, lambda: site.put("three")
    site.watch.follow()
    assert site.ended("three") is False
    site.watch.follow()
    assert site.kube.waited == [180, 60, 60, 60, 60, 180]


def test_broken_watch(site: Site) -> None:
    """Whatever it ends in, what it has told is known, and the list that follows says the rest: the wait for that is no
    doubt.
    """
    site.kube.breaks = ApiUnavailable("the connection was reset")
    site.kube.meanwhile = lambda: site.put("two")
    site.watch.follow()
    assert site.ended() is False and site.ended("two") is False
    site.put("one", **ENDED)
    site.watch.follow()
    assert site.ended() is True


def test_forgotten_version_is_listed_again(site: Site) -> None:
    """It is no error; a Job that was deleted meanwhile is then unknown."""
    site.kube.forgotten = 10**6
    site.watch.follow()
    assert site.ended() is False
    site.kube.delete(JOBS, "one", SPACE)
    site.kube.forgotten = 0
    site.watch.follow()
    assert site.ended() is None


def test_no_question_no_request(site: Site) -> None:
    """While no run is in progress, as in a soak of a day, nothing is followed; the next question begins it again."""
    watch = JobWatch(site.kube, site.clock)
    for asked in range(1, 4):
        watch.ended(CAMPAIGN, SPACE, "one")
        until("a watch", lambda asked=asked: len(site.kube.waited) == asked, timeout_seconds=60)  # type: ignore[misc]
    assert site.lists() <= 3
    watch.close()


class Troubled(FakeKube):
    """An API whose lists end in an error."""

    error: Exception = ApiUnavailable("no answer")

    def listed(self, kind: Kind, namespace: str = "", **_: Any) -> tuple[tuple[KubeObject, ...], str]:
        self._check("list jobs")
        raise self.error


@pytest.mark.parametrize("error", [ApiUnavailable("no answer"), ConfigError("no kubeconfig"), ValueError("a fault")])
def test_trouble_ends_nothing(error: Exception) -> None:
    """Whatever a list ends in, Jobs are unknown until the next one, and the thread goes on."""
    kube, work = Troubled(), list[Callable[[], None]]()
    kube.error = error
    watch = JobWatch(kube, FakeClock(), work.append)
    watch.ended(CAMPAIGN, SPACE, "one")
    (follow_on,) = work
    watch.close()
    follow_on()
    assert kube.all_asked == []
    watch = JobWatch(kube, FakeClock())
    watch.ended(CAMPAIGN, SPACE, "one")
    until("a list", lambda: "list jobs" in kube.all_asked, timeout_seconds=60)
    assert watch.ended(CAMPAIGN, SPACE, "one") is None
    watch.close()


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_missing_right_is_told(site: Site, verb: str) -> None:
    """In a thread nobody would read it: the next question raises it."""
    site.kube.denied.add((verb, "jobs"))
    watch = JobWatch(site.kube, site.clock)

    def refused() -> bool:
        try:
            watch.ended(CAMPAIGN, SPACE, "one")
        except ApiError as error:
            return error.status == 403
        return False

    until("the refusal", refused, timeout_seconds=60)
    watch.close()
