"""Jobs on a management cluster, played by a fake of its API."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.fleet_folder import write_fleet
from tests.unit.fleet.test_outcomes import write_run
from upgrader.app.event_lines import OUTCOME
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.journal.journal_file import JOURNAL
from upgrader.errors import ApiError, ApiUnavailable, Blocked, CredentialsRefused, UsageError
from upgrader.fleet import jobs_executor
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import inputs_of
from upgrader.fleet.job_objects import JOBS
from upgrader.fleet.job_watch import JobWatch
from upgrader.fleet.jobs_executor import JobsExecutor, fetch_journals
from upgrader.fleet.unread_journals import Unread
from upgrader.gates.kubernetes_kinds import NAMESPACES, PODS, SECRETS
from upgrader.ports import Kind, KubeObject

FLEET = f"""\
apiVersion: upgrader.io/v1alpha1
kind: FleetRun
spec:
  target: v1.37.1
  stages: [{{name: all, selector: {{}}}}]
  jobs: {{image: "registry.example/runner@sha256:{64 * "0"}", queue: fleet, grace: 2h}}
"""
SPACE = "fleet-a"
RECIPIENT = "age1spl2swq3ujnctvxrju6yzx2t07qgxzhycum5sg2x9c9lt2kus3vs0xszn0"


class Failing(FakeKube):
    """An API that fails a kind of request, before or after it was carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: dict[str, ApiError] = {}
        self.after = False
        self.minute: Callable[[], None] | None = None
        """What happens in each minute of a watch; None: it tells what there is, and ends."""

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if self.after:
            super().create(kind, manifest, namespace)
        self._fail(f"create {kind.plural}")
        return super().create(kind, manifest, namespace, dry_run=dry_run)

    def changes(
        self, kind: Kind, namespace: str = "", *, timeout_seconds: int, silent_seconds: float, **named: Any
    ) -> Iterator[KubeObject]:
        named |= {"timeout_seconds": timeout_seconds, "silent_seconds": silent_seconds}
        yield from super().changes(kind, namespace, **named)
        if self.minute is None:
            return
        for _ in range(int(timeout_seconds if self.tells_progress else silent_seconds) // 60):
            self.minute()
            if self.tells_progress:
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}}

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        self._fail(f"get {kind.plural}")
        return super().get(kind, name, namespace)

    def _fail(self, what: str) -> None:
        if error := self.fails.get(what):
            raise error


@dataclass
class Site:
    """A fleet, its executor, and the attempt 1 at cluster `a`."""

    folder: Path
    kube: Failing = field(default_factory=Failing)
    clock: FakeClock = field(default_factory=FakeClock)
    unread: Unread = field(default_factory=Unread)

    def __post_init__(self) -> None:
        write_fleet(self.folder, FLEET)
        fleet = read_fleet(self.folder, self.clock.now())
        assert fleet.jobs is not None
        self.attempt = self.folder / "runs/20260101T000000-fleet-v1.37.1/clusters/a/1"
        self.attempt.parent.mkdir(parents=True)
        self.attempt.with_name("kubeconfig").write_text("first")
        self.watch = JobWatch(self.kube, self.clock, begin=lambda _: None)
        self.executor = JobsExecutor(
            self.kube, self.watch, fleet.jobs, fleet, "1/c/p", self.clock, lambda *_: self.unread
        )
        mine = fleet.by_name["a"].folder
        self.arguments = ["-C", str(mine), "--kubeconfig", "/k", "run", "-o", "json", "--approved-inputs"]
        self.arguments += [inputs_of(self.folder, mine, frozenset(), {}).files, "--approved-copies", "/c", "--resume"]

    def start(self) -> None:
        self.executor.prepare(self.attempt, self.arguments)()

    def job(self) -> Any:
        (found,) = self.kube.list(JOBS, SPACE)
        return found

    def secret(self, name: str) -> bytes:
        found = self.kube.get(SECRETS, f"{self.job()['metadata']['name']}-{name}", SPACE)
        assert found is not None
        return base64.b64decode(next(iter(found["data"].values())))

    def pod(self, phase: str, name: str = "p", **state: object) -> None:
        labels = self.job()["spec"]["template"]["metadata"]["labels"]
        meta = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
        status = {"phase": phase, "containerStatuses": [{"name": "run", "state": state}]}
        self.kube.put(PODS, {"metadata": meta, "status": status}, SPACE)

    def failed(self, run: str) -> None:
        """Have its pod end with 5, and name that run."""
        said = {"exit_code": 5, "run": run, "error": {"code": "StepFailed", "what": "it failed"}}
        line = json.dumps({"type": OUTCOME, "time": "2026-01-01T00:00:00Z", "data": said})
        self.pod("Failed", terminated={"exitCode": 5, "message": line})

    def later(self) -> bool:
        """Whether it runs, after a single Job may be read again."""
        self.clock.sleep(61)
        return self.executor.running(self.attempt)

    def followed(self) -> bool:
        """Whether it runs, once the watch has told all that there is."""
        self.executor.running(self.attempt)
        self.watch.follow()
        return self.executor.running(self.attempt)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_run_is_a_job_with_the_paths_of_its_pod(site: Site) -> None:
    """The copies are made already, and a second pod resumes what the first has begun; fleet.yaml decides the rest."""
    site.start()
    job = site.job()
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    folder, digest = str(site.folder / "clusters/a"), site.arguments[8]
    assert command[command.index("--") + 1 :] == [
        *("-C", folder, "--kubeconfig", "/upgrader/kubeconfig/kubeconfig", "run", "-o", "json"),
        *("--approved-inputs", digest, "--resume"),
    ]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "fleet"
    assert job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 7200
    assert site.secret("kubeconfig") == b"first" and site.secret("inputs-0")
    assert not site.attempt.with_name("inputs").exists()


def test_renewed_credentials_reach_a_job_that_runs(site: Site) -> None:
    """Once for each change; a coordinator that was left without a kubeconfig leaves the Job's own."""
    site.start()
    site.attempt.with_name("kubeconfig").write_text("second")
    assert site.followed() and site.secret("kubeconfig") == b"second"
    site.attempt.with_name("kubeconfig").write_text("third")
    assert site.later() and site.secret("kubeconfig") == b"third"
    site.attempt.with_name("kubeconfig").unlink()
    assert site.later() and site.secret("kubeconfig") == b"third"


def test_job_is_read_once_a_minute_while_no_watch_tells(site: Site) -> None:
    """Between two requests it counts as running; its end is seen at the next one."""
    site.start()
    assert site.executor.running(site.attempt)
    site.kube.patch(JOBS, site.job()["metadata"]["name"], {"status": failed()}, SPACE)
    site.clock.sleep(59)
    assert site.executor.running(site.attempt)
    site.clock.sleep(1)
    assert not site.executor.running(site.attempt)


def test_watch_tells_the_end_of_a_job(site: Site) -> None:
    """As soon as it happens, without a read of that Job."""
    site.start()
    assert site.followed()
    site.kube.patch(JOBS, site.job()["metadata"]["name"], {"status": failed()}, SPACE)
    assert not site.followed()
    assert not asked_for(site, "get jobs")


def test_job_that_the_watch_does_not_select_is_read(site: Site) -> None:
    """One without the campaign's label, as another version of `upgrader` has created it, runs until it has ended."""
    site.start()
    job = site.job()
    del job["metadata"]["labels"]["upgrader.io/campaign"]
    site.kube.put(JOBS, job, SPACE)
    assert site.followed() and site.later()
    site.kube.put(JOBS, {**job, "status": failed()}, SPACE)
    assert not site.later()


@pytest.mark.parametrize(
    ("tells_progress", "seconds", "most_lists", "most"),
    [(True, 600, 1, 20), (True, 4 * 3600, 9, 45), (False, 600, 4, 20), (False, 4 * 3600, 81, 180)],
)
def test_requests_for_a_run(site: Site, tells_progress: bool, seconds: int, most_lists: int, most: int) -> None:
    """A run of ten minutes costs at most 20 requests to the management cluster, from its Job's creation to the removal
    of its Secrets. Of a longer one, that a Job runs is told by a list and a watch in half an hour, for all Jobs
    together; in three minutes, where watches have no bookmarks. No Job is read.
    """
    site.kube.tells_progress = tells_progress
    site.start()
    with suppress(Ended):
        site.executor.running(site.attempt)
        site.kube.minute = partial(minute, site, site.clock.monotonic() + seconds)
        while True:
            site.watch.follow()
    before = len(site.kube.all_asked)
    site.failed("r")
    del site.kube.all_asked[before:]  # what the test itself asks
    assert site.executor.end(site.attempt) is not None
    asked = Counter(" ".join(each.split()[:2]) for each in site.kube.all_asked)
    assert asked["get jobs"] == 0 and asked["list jobs"] == asked["watch jobs"] == most_lists
    assert asked.total() <= most, asked


class Ended(Exception):
    """The time of a test is over."""


def minute(site: Site, until: float) -> None:
    """What the coordinator does in a minute of a watch."""
    for _ in range(30):
        if site.clock.monotonic() >= until:
            raise Ended
        assert site.executor.running(site.attempt)
        site.clock.sleep(2)


def asked_for(site: Site, what: str) -> bool:
    return any(each.startswith(what) for each in site.kube.all_asked)


def failed() -> dict[str, object]:
    return {"conditions": [{"type": "Failed", "status": "True"}]}


def test_end_of_a_job(site: Site) -> None:
    """Its pod's exit code, with why no journal can be read; its Secrets are removed."""
    site.unread = Unread("no answer")
    site.start()
    site.failed("r")
    end = site.executor.end(site.attempt)
    assert end is not None and (end.exit_code, end.run, end.unread) == (5, "r", "no answer")
    assert not site.kube.list(SECRETS, SPACE)


def test_time_in_a_queue_is_no_part_of_a_run(site: Site) -> None:
    """Kueue has let the Job wait: its run began with the Job's start, as far as the watch has told it."""
    site.start()
    site.failed("r")
    end = site.executor.end(site.attempt)
    assert end is not None and end.began is None
    status = {**failed(), "startTime": "2026-01-01T03:00:00Z"}
    site.kube.patch(JOBS, site.job()["metadata"]["name"], {"status": status}, SPACE)
    assert not site.followed()
    end = site.executor.end(site.attempt)
    assert end is not None and end.began == datetime(2026, 1, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(("damaged", "unread"), [("20251201T000000-v1.36.3", ""), ("20260102T000000-v1.37.1", "bad")])
def test_damaged_journal_at_the_end_of_a_job(site: Site, damaged: str, unread: str) -> None:
    """One of an older run than the one that a pod names is no reason not to read that one's; a later one, as of the
    next minor version, is.
    """
    site.unread = Unread(runs={damaged: "bad"})
    site.start()
    site.failed("20260101T000001-v1.37.1")
    end = site.executor.end(site.attempt)
    assert end is not None and end.unread == unread


def test_end_of_a_job_that_is_gone(site: Site) -> None:
    """Its cluster's journals say how far the run came. Where they can't be read, it is asked again, with its Secrets
    where they were: the upgrade may be half done.
    """
    site.unread = Unread("no answer")
    site.start()
    with pytest.raises(UsageError, match="the cluster's journals can't be read: no answer"):
        site.executor.end(site.attempt)
    assert site.kube.list(SECRETS, SPACE)
    site.unread = Unread()
    assert site.executor.end(site.attempt) is None
    assert not site.kube.list(SECRETS, SPACE)


@pytest.mark.parametrize("code", [0, 3, 5, 6, 130])
def test_end_that_names_no_run(site: Site, code: int) -> None:
    """Without the cluster's journals, such a pod doesn't say that no run is in the middle, whatever its exit code: the
    attempt's end isn't known, and what an operator can do is said. With them, it is.
    """
    site.unread = Unread("no answer")
    site.start()
    site.pod("Failed", terminated={"exitCode": code, "message": ""})
    with pytest.raises(
        UsageError, match="is gone or didn't report its run, and the cluster's journals can't be read"
    ) as error:
        site.executor.end(site.attempt)
    assert f"upgrader -C {site.folder / 'clusters/a'} resume" in error.value.message
    assert "name it in `exclude`" in error.value.message
    site.unread = Unread()
    end = site.executor.end(site.attempt)
    assert end is not None and (end.exit_code, end.unread) == (code, "")


def test_deleted_job_runs_as_long_as_its_pod(site: Site) -> None:
    """No other is begun beside it."""
    site.start()
    site.pod("Running", running={})
    site.kube.delete(JOBS, site.job()["metadata"]["name"], SPACE)
    assert site.executor.running(site.attempt)
    site.kube.delete(PODS, "p", SPACE)
    assert not site.later()


def test_sign_of_life(site: Site) -> None:
    """What a Job waits for; then when its run has written a line last; how to end it. It is asked for every 5 min."""
    site.start()
    name = site.job()["metadata"]["name"]
    sign = site.executor.sign(site.attempt)
    assert sign.process == f"Job fleet-a/{name} (has no pod yet)" and sign.time is None
    assert sign.log == f"its log (kubectl -n fleet-a logs job/{name})"
    assert sign.to_end == f"delete it (kubectl -n fleet-a delete job {name})"
    site.pod("Running", running={})
    site.kube.log_texts["p", "run", False] = '{"time":"2026-01-01T00:00:01Z"}'
    assert site.executor.sign(site.attempt) is sign
    site.clock.sleep(301)
    later = site.executor.sign(site.attempt)
    assert later.process == f"Job fleet-a/{name}" and later.time == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("job", [True, False])
def test_a_pod_that_stays_on_a_lost_node(site: Site, job: bool) -> None:
    """With its Job or without it, the run counts as running: what ends it is the pod's deletion, and not the Job's. Its
    log can't be read there, so it is known by what it had written before.
    """
    site.start()
    site.pod("Running", running={})
    site.kube.log_texts["p", "run", False] = '{"time":"2026-01-01T00:00:01Z"}'
    before = site.executor.sign(site.attempt)
    pod = site.kube.get(PODS, "p", SPACE)
    assert pod is not None
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    site.kube.put(PODS, {**pod, "spec": {"nodeName": "n1"}}, SPACE)
    if not job:
        site.kube.delete(JOBS, site.job()["metadata"]["name"], SPACE)
    site.kube.log_texts.clear()
    site.clock.sleep(301)
    sign = site.executor.sign(site.attempt)
    assert site.executor.running(site.attempt)
    assert sign.process.endswith("(pod p is terminating)") and sign.time == before.time is not None
    assert sign.log == "node n1"
    assert sign.to_end == (
        "start node n1 again; or, only once it is certain that this node is off, delete the pod (kubectl -n fleet-a "
        "delete pod p --force)"
    )


def test_expired_credentials_of_the_management_cluster(site: Site) -> None:
    """They are no failure of the cluster whose run was to begin: its run counts as begun, and with new credentials it
    is seen that there is no Job.
    """
    site.kube.fails["create jobs"] = site.kube.fails["get jobs"] = CredentialsRefused("401", remedy="upgrader recover")
    site.start()
    with pytest.raises(UsageError, match=r"the management cluster: 401; replace .* in its kubeconfig") as refused:
        site.executor.running(site.attempt)
    assert "jobs.kubeconfig" in refused.value.message and "recover" not in refused.value.remedy
    site.kube.fails.clear()
    assert not site.later()


def test_silent_management_cluster_is_asked_once_for_all_clusters(site: Site) -> None:
    """Fifty clusters would wait for fifty timeouts in each look; a minute later, it is asked again."""
    site.start()
    other = site.attempt.parents[1] / "b/1"
    site.clock.sleep(61)
    site.kube.unavailable = True
    site.kube.all_asked.clear()
    for attempt in (site.attempt, other, site.attempt, other):
        with pytest.raises(UsageError, match="the management cluster: "):
            site.executor.running(attempt)
    assert len(site.kube.all_asked) == 1
    site.kube.unavailable = False
    assert site.later() and not site.executor.running(other)


@pytest.mark.parametrize("after", [False, True])
def test_start_of_which_no_answer_came(site: Site, after: bool) -> None:
    """Whether the Job is there isn't known: it counts as begun, and the next look, which finds it or not, decides."""
    site.kube.fails["create jobs"], site.kube.after = ApiUnavailable("no answer"), after
    site.start()
    site.kube.fails.clear()
    site.kube.after = False
    assert site.executor.running(site.attempt) is after


def test_refusals_name_the_object_and_the_rights(site: Site) -> None:
    """A missing right; a management cluster that doesn't answer; a Job of the same name that is another one."""
    site.kube.fails["create jobs"] = forbidden()
    with pytest.raises(UsageError, match="cannot create") as refused:
        site.start()
    assert "rights in the chart `fleet`" in refused.value.remedy
    assert not site.kube.list(SECRETS, SPACE)  # of what was not begun, no credentials stay
    site.kube.fails.clear()
    site.start()
    site.start()
    other = replace(site.executor, pins="2/c/p")
    with pytest.raises(UsageError, match="already exists, with different content"):
        other.prepare(site.attempt, site.arguments)()
    site.kube.fails["get jobs"] = ApiUnavailable("no answer")
    with pytest.raises(UsageError, match="the management cluster: no answer"):
        site.later()


@pytest.mark.parametrize(
    "said",
    [
        'jobs.batch "a" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: 5, limited: 5',
        'admission webhook "policy.example" denied the request: no image of this registry',
        'secrets "a" is forbidden: unable to create new content in namespace fleet-a because it is being terminated',
    ],
)
def test_a_refusal_by_admission_is_no_missing_right(site: Site, said: str) -> None:
    """A quota, a webhook or a namespace that is deleted refuses with the status of a missing right: more rights would
    not help.
    """
    error = ApiError(said)
    error.status = 403
    site.kube.fails["create jobs"] = error
    with pytest.raises(UsageError) as refused:
        site.start()
    assert said in refused.value.message
    assert "rights" not in refused.value.remedy and "ResourceQuota" in refused.value.remedy


def forbidden() -> ApiError:
    error = ApiError('jobs is forbidden: User "x" cannot create resource "jobs"')
    error.status = 403
    return error


def test_inputs_that_have_changed_or_can_not_be_read(site: Site) -> None:
    """No Job is created for a folder that isn't the approved one, or without a kubeconfig."""
    site.attempt.with_name("kubeconfig").unlink()
    with pytest.raises(UsageError, match="kubeconfig can't be read"):
        site.start()
    (site.folder / "clusters/a/more").write_text("")
    with pytest.raises(UsageError, match="no longer matches what was approved"):
        site.start()
    assert not site.kube.list(JOBS, SPACE)


def test_nothing_begins_before_it_is_told_to(site: Site) -> None:
    """What reads the cluster's folder, however long that takes, asks nothing of the management cluster."""
    site.kube.unavailable = True
    begin = site.executor.prepare(site.attempt, site.arguments)
    site.kube.unavailable = False
    assert not site.kube.list(SECRETS, SPACE) and not site.attempt.with_name("inputs").exists()
    (site.folder / "clusters/a/upgrader.yaml").unlink()
    begin()
    assert site.job() and site.secret("inputs-0")


def test_backup_that_would_be_lost(site: Site) -> None:
    """A cluster whose run takes a backup before it gets no Job: the backup would be in its pod."""
    settings = site.folder / "clusters/a/upgrader.yaml"
    settings.write_text(f"{settings.read_text()}backup: {{recipients: [{RECIPIENT}]}}\n")
    with pytest.raises(UsageError, match="backup would be lost with its pod"):
        site.start()
    assert not site.kube.list(JOBS, SPACE)


def test_management_cluster_of_the_fleet_is_refused(site: Site) -> None:
    """By the UID of kube-system; one without it isn't known, and refused as well."""
    with pytest.raises(UsageError, match="no namespace kube-system"):
        site.executor.check()
    site.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "hub"}})
    site.executor.check()
    site.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "u2"}})
    with pytest.raises(Blocked, match="cluster b is the management cluster itself"):
        site.executor.check()


def test_journals_come_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's are brought into its folder; that it doesn't answer, or its kubeconfig is wrong, is told."""
    kube, run = FakeKube(), "20260101T000001-v1.37.1"

    @contextmanager
    def opened(kubeconfig: Path, _: float) -> Iterator[FakeKube]:
        if kubeconfig == Path("wrong"):
            raise UsageError("it is wrong")
        yield kube

    monkeypatch.setattr(jobs_executor, "open_api", opened)
    write_run(tmp_path / "there", run)
    content = (tmp_path / "there/runs" / run / JOURNAL).read_bytes()
    ClusterReplicas(kube).write(run, content)
    assert (
        fetch_journals(tmp_path, Path("k")) == Unread() and (tmp_path / "runs" / run / JOURNAL).read_bytes() == content
    )
    kube.unavailable = True
    assert "the cluster could not be searched for runs" in fetch_journals(tmp_path, Path("k")).place
    assert fetch_journals(tmp_path, Path("wrong")) == Unread("it is wrong")


def test_damaged_journal_in_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told by its run, apart from clusters that don't answer, and the others come home; where the cluster folder
    knows how that run ended, nothing is unknown.
    """
    kube = FakeKube()
    old, open_one, run = "20260101T000001-v1.36.3", "20260101T000002-v1.37.1", "20260101T000003-v1.37.1"
    monkeypatch.setattr(jobs_executor, "open_api", lambda *_: nullcontext(kube))
    write_run(tmp_path / "there", run)
    ClusterReplicas(kube).write(run, (tmp_path / "there/runs" / run / JOURNAL).read_bytes())
    for damaged in (old, open_one):
        ClusterReplicas(kube).write(damaged, b"{}\n")
    assert set(fetch_journals(tmp_path, Path("k")).runs) == {old, open_one}
    assert (tmp_path / "runs" / run / JOURNAL).is_file()
    write_run(tmp_path, old, outcome="succeeded")
    write_run(tmp_path, open_one)
    unread = fetch_journals(tmp_path, Path("k"))
    assert unread.place == "" and list(unread.runs) == [open_one]
