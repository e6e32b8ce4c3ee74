"""What followers of a kind's objects rely on, from the fake and from a real API server alike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from testkit.api_servers import api_servers
from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import OLD, until
from upgrader.adapters.clock import SystemClock
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.fleet import job_watch
from upgrader.fleet.job_watch import JobWatch
from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.ports import FollowedKube, Kind, KubeObject

CONFIG_MAPS, EVENTS, JOBS = Kind("v1", "configmaps"), Kind("v1", "events"), Kind("batch/v1", "jobs")
TEMPLATES = Kind("v1", "podtemplates")
"""Nothing else lists or watches these."""
SPACE, LABELS = "default", "test=changes"
SECONDS = 8
"""Of a watch."""


@dataclass(frozen=True)
class Api:
    """A server, and how its memory is cut off."""

    kube: FollowedKube
    forget: Callable[[str], None]
    """Forgets all versions before this one."""


def _follow_in_turn(_: Callable[[], None]) -> None:
    """The fake has no other client, so that its watches end by themselves."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_servers(tmp_path_factory.mktemp("changes")) as servers, servers.serving(OLD) as kube:
        until(SPACE, lambda: kube.get(NAMESPACES, SPACE) is not None, timeout_seconds=60)
        command = [str(Binaries(Silent()).etcd() / "etcdctl"), f"--endpoints={servers.etcd_url}", "compact"]
        yield Api(kube, lambda version: _must([*command, version]))


def _must(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(params=["fake", "real"])
def api(request: pytest.FixtureRequest) -> Api:
    """The port: the fake or the adapter."""
    if request.param == "real":
        found: Api = request.getfixturevalue("real")
        return found
    fake = FakeKube()
    return Api(fake, lambda version: setattr(fake, "forgotten", int(version)))


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


def names(item: Any) -> Any:
    return {"metadata": {"name": item["metadata"]["name"]}}


def test_changes_follow_the_list(api: Api) -> None:
    """What matches is listed, of each what is kept; each change after the list is told once and in order. From the
    version of the last one on, nothing is told again. Bookmarks may come, and none is promised.
    """
    kube = api.kube
    for name in ("first", "second"):
        kube.create(CONFIG_MAPS, config_map(name, test="changes"), SPACE)
    kube.create(CONFIG_MAPS, config_map("other", test="none"), SPACE)
    found, version = kube.listed(CONFIG_MAPS, labels=LABELS, keep=names)
    assert found == ({"metadata": {"name": "first"}}, {"metadata": {"name": "second"}})
    kube.create(CONFIG_MAPS, config_map("third", test="changes"), SPACE)
    kube.patch(CONFIG_MAPS, "first", {"data": {"a": "2"}}, SPACE)
    kube.patch(CONFIG_MAPS, "other", {"data": {"a": "2"}}, SPACE)
    kube.delete(CONFIG_MAPS, "second", SPACE)
    watched = partial(kube.changes, CONFIG_MAPS, labels=LABELS, silent_seconds=120)
    events = [each for each in watched(version=version, timeout_seconds=SECONDS) if each["type"] != "BOOKMARK"]
    told = [(each["type"], each["object"]["metadata"]["name"]) for each in events]
    assert told == [("ADDED", "third"), ("MODIFIED", "first"), ("DELETED", "second")]
    last = events[-1]["object"]["metadata"]["resourceVersion"]
    assert not [each for each in watched(version=last, timeout_seconds=SECONDS) if each["type"] != "BOOKMARK"]


def test_version_that_is_forgotten(api: Api) -> None:
    """It is told by its status, so that a follower lists again."""
    api.kube.create(CONFIG_MAPS, config_map("older"), SPACE)
    made = api.kube.create(CONFIG_MAPS, config_map("younger"), SPACE)
    api.forget(made["metadata"]["resourceVersion"])
    with pytest.raises(ApiError) as caught:  # a real server remembers changes of all kinds but Events itself
        list(api.kube.changes(EVENTS, SPACE, version="1", timeout_seconds=SECONDS, silent_seconds=60))
    assert caught.value.status == 410 and not isinstance(caught.value, ApiUnavailable)


def job(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "run", "image": "none.invalid/none"}]}}
    labels = {"upgrader.io/campaign": "one"}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def ended() -> dict[str, Any]:
    """The status of a Job that is complete."""
    time = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": time} for each in ("SuccessCriteriaMet", "Complete")
    ]
    return {"startTime": time, "completionTime": time, "succeeded": 1, "ready": 0, "conditions": conditions}


def test_jobs_of_a_campaign_are_followed(api: Api) -> None:
    """A Job that was there, one that is new, the end of one, and that one is gone: each is known by the one watch."""
    kube = api.kube
    kube.create(JOBS, job("there"), SPACE)
    fake = isinstance(kube, FakeKube)
    watch = JobWatch(kube, SystemClock(), _follow_in_turn) if fake else JobWatch(kube, SystemClock())

    def knows(name: str, ended: bool | None) -> bool:
        found = watch.ended("one", SPACE, name)
        if fake:
            watch.follow()
        return found is ended

    def told(name: str, ended: bool | None) -> None:
        until(f"{name} to be {ended}", lambda: knows(name, ended), timeout_seconds=60)

    told("there", False)
    kube.create(JOBS, job("new"), SPACE)
    told("new", False)
    kube.patch(JOBS, "there", {"status": ended()}, SPACE, subresource="status")
    told("there", True)
    kube.delete(JOBS, "new", SPACE)
    if not fake:  # no garbage collector takes its finalizer
        kube.patch(JOBS, "new", {"metadata": {"finalizers": None}}, SPACE)
    told("new", None)
    assert watch.ended("one", SPACE, "there") is True
    watch.close()
    kube.delete(JOBS, "there", SPACE)  # it ends with the next event


def test_quiet_kind(api: Api) -> None:
    """A watch of a kind of which nothing changes may have no bookmark either, whatever else changes: that nothing comes
    is no sign of trouble.
    """
    kube = api.kube
    if isinstance(kube, FakeKube):
        kube.tells_progress = False
    _, version = kube.listed(TEMPLATES, keep=names)
    kube.create(CONFIG_MAPS, config_map("elsewhere"), SPACE)
    assert not list(kube.changes(TEMPLATES, version=version, timeout_seconds=SECONDS, silent_seconds=60))


class Counted:
    """Counts the lists."""

    def __init__(self, kube: FollowedKube) -> None:
        self.lists, self.changes = 0, kube.changes
        self._listed = kube.listed

    def listed(self, kind: Kind, namespace: str = "", **more: Any) -> tuple[tuple[KubeObject, ...], str]:
        self.lists += 1
        return self._listed(kind, namespace, **more)


def test_jobs_of_a_quiet_server(real: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends nothing, as no Job changes, leaves no doubt that a Job runs: after each silence, all are
    listed. Its end is told by the watch that is open then.
    """
    monkeypatch.setattr(job_watch, "_SILENT_SECONDS", 1.0)
    monkeypatch.setattr(job_watch, "_DOUBTED_SECONDS", 1.0)
    real.kube.create(JOBS, job("quiet"), SPACE)
    counted = Counted(real.kube)
    watch = JobWatch(counted, SystemClock())
    until("the Job to be known", lambda: watch.ended("one", SPACE, "quiet") is False, timeout_seconds=60)
    wanted = counted.lists + 3

    def listed() -> bool:
        assert watch.ended("one", SPACE, "quiet") is False
        return counted.lists >= wanted

    until("three silent watches", listed, timeout_seconds=60)
    real.kube.patch(JOBS, "quiet", {"status": ended()}, SPACE, subresource="status")
    until("the end of the Job", lambda: watch.ended("one", SPACE, "quiet") is True, timeout_seconds=60)
    watch.close()


def test_server_that_says_nothing(real: Api) -> None:
    """A watch in which nothing comes ends after the time that its caller waits, and is no error."""
    _, version = real.kube.listed(CONFIG_MAPS, labels="no=such", keep=names)
    watched = real.kube.changes(CONFIG_MAPS, labels="no=such", version=version, timeout_seconds=86400, silent_seconds=1)
    assert not list(watched)
