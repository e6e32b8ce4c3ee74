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


class Site:
    """A Job `one` of a campaign, and a watch that goes on only when it is told to."""

    def __init__(self) -> None:
        self.kube, self.clock = FakeKube(), FakeClock()
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


def test_silence_is_no_answer(site: Site) -> None:
    """After three minutes without an event or a bookmark, what was known isn't known any more, until one comes."""
    site.watch.follow()
    site.clock.sleep(180)
    assert site.ended() is False
    site.clock.sleep(1)
    assert site.ended() is None
    site.watch.follow()
    assert site.ended() is False and site.ended("other") is None


def test_broken_watch_continues_where_it_was(site: Site) -> None:
    """What has happened meanwhile is told by the next watch, without another list."""
    site.watch.follow()
    site.kube.denied.add(("watch", "jobs"))
    with pytest.raises(ApiError):
        site.watch.follow()
    before = site.lists()
    site.kube.denied.clear()
    site.put("one", **ENDED)
    site.watch.follow()
    assert site.ended() is True and site.lists() == before


def test_forgotten_version_is_listed_again(site: Site) -> None:
    """It is no error; a Job that was deleted meanwhile is then unknown."""
    site.watch.follow()
    site.kube.denied.add(("watch", "jobs"))
    with pytest.raises(ApiError):
        site.watch.follow()
    site.kube.denied.clear()
    site.kube.delete(JOBS, "one", SPACE)
    site.kube.forgotten = 10**6
    site.watch.follow()
    site.kube.forgotten = 0
    site.watch.follow()
    assert site.ended() is None


class Troubled(FakeKube):
    """An API whose watches end in an error."""

    error: Exception = ApiUnavailable("no answer")

    def changes(self, kind: Kind, namespace: str = "", **_: Any) -> Iterator[KubeObject]:
        self._check("watch jobs")
        raise self.error


@pytest.mark.parametrize("error", [ApiUnavailable("no answer"), ConfigError("no kubeconfig"), ValueError("a fault")])
def test_trouble_ends_nothing(error: Exception) -> None:
    """Whatever a watch ends in, Jobs are unknown until the next one, and the thread goes on."""
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
    until("a watch", lambda: "watch jobs" in kube.all_asked, timeout_seconds=60)
    assert watch.ended(CAMPAIGN, SPACE, "one") is None
    watch.close()


def test_missing_right_is_told(site: Site) -> None:
    """In a thread nobody would read it: the next question raises it."""
    site.kube.denied.add(("list", "jobs"))
    watch = JobWatch(site.kube, site.clock)

    def refused() -> bool:
        try:
            watch.ended(CAMPAIGN, SPACE, "one")
        except ApiError as error:
            return error.status == 403
        return False

    until("the refusal", refused, timeout_seconds=60)
    watch.close()
