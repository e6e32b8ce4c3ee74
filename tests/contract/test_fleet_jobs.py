"""A campaign whose runs are Jobs, on a real API server, with no rights but those of the chart.

There is no kubelet and no controller: the tests play what these write into the status of pods and Jobs.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.api_servers import api_servers
from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_fleet, write_kubeconfig
from testkit.lab_cluster import OLD, until
from tests.contract.rbac import RBAC, allowed, rights_but
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.helm import find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.past_runs import run_named
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.errors import ApiError, Blocked, UpgraderError, UsageError
from upgrader.fleet.campaigns import begin, fleet_files
from upgrader.fleet.cluster_checks import Questions
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.copies_in_secrets import chunks_of
from upgrader.fleet.end_signals import end_signals
from upgrader.fleet.events import CampaignStarted, ClusterInputs, Pins
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.inputs import copy_approved, folder_digest, inputs_of
from upgrader.fleet.job_objects import JOBS, Attempt, has_ended
from upgrader.fleet.job_process import pins_text, run_in_job
from upgrader.fleet.job_watch import JobWatch
from upgrader.fleet.jobs_executor import JobsExecutor, fetch_journals
from upgrader.fleet.outcomes import command_end
from upgrader.fleet.unread_journals import Unread
from upgrader.gates.kubernetes_kinds import NAMESPACES, PODS, SECRETS
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, KubeObject

ACCOUNT = "system:serviceaccount:ops:fleet-coordinator"
CHART = Path(__file__).parents[2] / "charts" / "fleet"
TARGET = KubernetesVersion.release("v1.37.1")
PINS = Pins("1", "c", "p")
IMAGE = f"registry.example/upgrader-runner@sha256:{64 * '0'}"
FLEET = f"""\
apiVersion: upgrader.io/v1alpha1
kind: FleetRun
spec:
  target: v1.37.1
  stages:
  - name: all
    selector: {{matchExpressions: [{{key: ring, operator: Exists}}]}}
    maxConcurrency: 3
    maxFailures: {{blocked: 3, rolledBack: 3, broken: 3, interrupted: 3, sameCause: 9}}
  exclude: [d]
  jobs: {{image: "{IMAGE}"}}
"""
RIGHTS = (
    *("get namespaces", "list secrets", "create secrets", "patch secrets", "create jobs", "get jobs", "get pods/log"),
    *("list pods", "delete secrets", "list jobs", "watch jobs"),
)
"""All that the chart gives the coordinator; each is taken away by a test, one of them in `make test`."""
_NUMBERS = count(20260101)
"""A campaign's day: names of Jobs are its, and they share an API server."""


@dataclass(frozen=True)
class Hub:
    """A management cluster, with the chart's namespaces."""

    kube: KubeAdapter
    """The administrator's."""
    account: Path
    """The kubeconfig of the chart's ServiceAccount."""
    kubeconfig: Path
    objects: tuple[KubeObject, ...]
    """Of the chart."""


def rendered() -> Iterator[KubeObject]:
    values = {"clusters": [{"name": each, "egress": [{"cidr": "10.0.0.0/24"}]} for each in "abc"]}
    command = [str(find_helm()), "template", "fleet", str(CHART), "--namespace=ops", "--values=-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    yield from (each for each in yaml.safe_load_all(done.stdout) if each)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    with api_servers(folder, ACCOUNT) as servers, servers.serving(OLD) as kube:
        objects = tuple(rendered())
        kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}})
        for each in objects:
            if each["kind"] == "Namespace":
                kube.create(NAMESPACES, each)
            elif each["kind"] == "NetworkPolicy":
                policies = Kind("networking.k8s.io/v1", "networkpolicies")
                kube.create(policies, each, each["metadata"]["namespace"])
        until("kube-system", lambda: kube.get(NAMESPACES, "kube-system") is not None, timeout_seconds=60)
        yield Hub(kube, servers.kubeconfig(ACCOUNT), servers.kubeconfig(), objects)


@contextmanager
def rights(hub: Hub, without: str | None = None) -> Iterator[None]:
    """Those of the chart, but for one, until the end of the block."""
    given = rights_but(hub.objects, lambda _, verb, resource: f"{verb} {resource}" == without)
    try:
        for each in given:
            hub.kube.create(RBAC[each["kind"]], each, each["metadata"].get("namespace", ""))
        for right, place in product(RIGHTS, [f"fleet-{each}" for each in "abc"]):
            wanted = right != without
            until(f"{right} to be {wanted}", partial(_is, hub, right, place, wanted), timeout_seconds=60)
        yield
    finally:
        for each in given:
            hub.kube.delete(RBAC[each["kind"]], each["metadata"]["name"], each["metadata"].get("namespace", ""))


def _is(hub: Hub, right: str, namespace: str, wanted: bool) -> bool:
    return may(hub, right, namespace) is wanted


def may(hub: Hub, right: str, namespace: str) -> bool:
    verb, _, resource = right.partition(" ")
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "resource": resource, "subresource": subresource, "namespace": namespace}
    if resource == "namespaces":
        attributes |= {"name": "kube-system", "namespace": ""}
    attributes["group"] = "batch" if resource == "jobs" else ""
    return allowed(hub.kube, ACCOUNT, attributes)


class Site:
    """A fleet of three clusters, and the status that is played for their Jobs."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.clock = hub, FakeClock()
        self.folder = write_fleet(folder, FLEET)
        self.fleet = read_fleet(folder, self.clock.now())
        self.unread = Unread()
        """Why no cluster's journals can be read."""
        self.journals: dict[str, str] = {}
        """Cluster → its run, which has succeeded."""
        (folder / "runs").mkdir()
        approved = tuple(
            ClusterInputs(each.name, str(inputs_of(folder, each.folder, frozenset(), {})))
            for each in self.fleet.clusters
        )
        name = f"{next(_NUMBERS)}T000000-fleet-v1.37.1"
        started = CampaignStarted(name, TARGET, PINS, approved, "me", executor="jobs")
        self.campaign, journal = begin(folder, started, fleet_files(folder), self.clock)
        journal.close()
        self._watches: list[JobWatch] = []
        self.watch = self._new_watch()
        self.coordinator = self.another()

    def _new_watch(self) -> JobWatch:
        watch = JobWatch(KubeAdapter(self.hub.account), SystemClock())
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        """Every watch ends with its next event: a Job that is deleted is one."""
        for watch in self._watches:
            watch.close()

    def executor(self, watch: JobWatch | None = None) -> JobsExecutor:
        kube = KubeAdapter(self.hub.account)
        assert self.fleet.jobs is not None
        watch = watch or self._new_watch()
        return JobsExecutor(kube, watch, self.fleet.jobs, self.fleet, "1/c/p", self.clock, self._fetch)

    def another(self) -> Coordinator:
        """One that knows only what is in the folder and on the hub."""
        self.watch.close()
        self.watch = self._new_watch()
        questions = Questions(self.folder, frozenset(), self._ask, {}, self.clock, self._fetch)
        journal = self.campaign.reopen(self.clock)
        return Coordinator(
            *(self.folder, self.fleet, self.campaign, journal, self.executor(self.watch), self.clock),
            *(questions, lambda: PINS),
        )

    def _ask(self, kubeconfig: Path) -> Answer:
        server = json.loads(kubeconfig.read_bytes())["clusters"][0]["cluster"]["server"]
        return Answer({"a": "u1", "b": "u2", "c": "u3"}[server.split("/")[2].partition(":")[0]], TARGET)

    def _fetch(self, folder: Path, _: Path) -> Unread:
        run = self.journals.get(folder.name)
        if run and not self.unread.place and run_named(folder / "runs", run) is None:
            write_journal(folder / "runs" / run, run, self.campaign.name)
        return self.unread

    def look(self) -> None:
        """One look, once the watch has told what there is."""
        self.clock.sleep(61)
        until("the watch to have told all", self._followed, timeout_seconds=60)
        self.coordinator.look()

    def _followed(self) -> bool:
        running = [each for each in self.campaign.state().clusters.values() if each.phase == "running"]
        try:
            return all(self._told(each.name, each.attempt) for each in running)
        except ApiError:
            return True

    def _told(self, cluster: str, number: int) -> bool:
        attempt, job = self.attempt(cluster, number), self.job(cluster, number)
        ended = self.watch.ended(attempt.campaign, attempt.namespace, attempt.name)
        return ended is (None if job is None else has_ended(job))

    def refused(self) -> bool:
        """Whether the watch was refused."""
        try:
            self._told("a", 1)
        except ApiError:
            return True
        return False

    def attempt(self, cluster: str, number: int = 1) -> Attempt:
        return Attempt(self.campaign.name, cluster, number, f"fleet-{cluster}")

    def job(self, cluster: str, number: int = 1) -> KubeObject | None:
        return self.hub.kube.get(JOBS, self.attempt(cluster, number).name, f"fleet-{cluster}")

    def jobs(self) -> list[str]:
        found = (self.hub.kube.list(JOBS, f"fleet-{cluster}") for cluster in "abc")
        mine = [each for some in found for each in some]
        return sorted(
            each["metadata"]["name"]
            for each in mine
            if each["metadata"]["labels"]["upgrader.io/campaign"] == self.campaign.name
        )

    def secrets(self, cluster: str) -> list[str]:
        found = self.hub.kube.list(SECRETS, f"fleet-{cluster}", labels=f"upgrader.io/cluster={cluster}")
        return [each["metadata"]["name"] for each in found]

    def plays(self, cluster: str, number: int = 1, pod: str = "x") -> None:
        """Its Job gets a pod, as the controller makes it, which runs."""
        job = self.job(cluster, number)
        assert job is not None
        template = job["spec"]["template"]
        name = f"{job['metadata']['name']}-{pod}"
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        }
        self.hub.kube.create(PODS, manifest, f"fleet-{cluster}")
        self._status(cluster, name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    def ends(
        self, cluster: str, code: int, number: int = 1, pod: str = "x", *, run: str = "", last: bool = True
    ) -> None:
        """The container of that pod ends; `last`: its Job, too."""
        line = {"format_version": "1.0", "time": "2026-01-01T00:01:00Z", "type": "CommandEnded"}
        error = {"code": "Blocked" if code == 3 else "GateFailed", "what": f"{cluster} ended with {code}", "why": ""}
        said = json.dumps({**line, "data": {"exit_code": code, "run": run, "error": error if code else None}})
        terminated = {"exitCode": code, "message": said, "finishedAt": "2026-01-01T00:01:00Z"}
        name = f"{self.attempt(cluster, number).name}-{pod}"
        self._status(cluster, name, "Failed" if code else "Succeeded", {"terminated": terminated})
        if not last:
            return
        time = "2026-01-01T00:01:01Z"
        kinds = ("FailureTarget", "Failed") if code else ("SuccessCriteriaMet", "Complete")
        conditions = [{"type": each, "status": "True", "lastTransitionTime": time} for each in kinds]
        status: dict[str, Any] = {"startTime": "2026-01-01T00:00:00Z", "conditions": conditions, "ready": 0}
        status |= {"failed": 1} if code else {"succeeded": 1, "completionTime": time}
        place = f"fleet-{cluster}"
        self.hub.kube.patch(JOBS, self.attempt(cluster, number).name, {"status": status}, place, subresource="status")

    def _status(self, cluster: str, name: str, phase: str, state: Mapping[str, Any]) -> None:
        container = {"name": "run", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": state}
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.hub.kube.patch(PODS, name, status, f"fleet-{cluster}", subresource="status")

    def phases(self) -> dict[str, str]:
        return {name: each.phase for name, each in self.campaign.state().clusters.items()}

    def said(self) -> str:
        """All that the campaign says of its clusters."""
        return "\n".join(f"{each.problem_reason}\n{each.reason}" for each in self.campaign.state().clusters.values())


def write_journal(folder: Path, run: str, campaign: str = "") -> None:
    folder.mkdir(parents=True)
    journal = Journal(folder / JOURNAL, FakeClock())
    journal.emit(RunStarted(run, RunKind.UPGRADE, (), f"runs/{run}", target=TARGET, campaign=campaign))
    journal.emit(RunEnded(run, "succeeded", 1.0))
    journal.close()


@pytest.fixture
def site(hub: Hub, tmp_path: Path) -> Iterator[Site]:
    found = Site(hub, tmp_path)
    yield found
    found.close()
    for cluster in "abc":
        for kind in (PODS, JOBS, SECRETS):
            for each in hub.kube.list(kind, f"fleet-{cluster}"):
                hub.kube.delete(kind, each["metadata"]["name"], f"fleet-{cluster}", at_once=kind is PODS)


RUN = "20260101T000001-v1.37.1"


def test_outcomes_are_those_of_the_exit_codes(hub: Hub, site: Site) -> None:
    """One Job a cluster, whose pods are admitted as restricted; exits 0, 3 and 4 are those of a process, by the
    cluster's journal. Nothing is left of Secrets, the Jobs are; the chart's rights suffice.
    """
    with rights(hub):
        site.look()
        assert len(site.jobs()) == 3 and site.phases() == dict.fromkeys("abc", "running")
        assert len(site.secrets("a")) == 2
        for cluster, code in zip("abc", (0, 3, 4), strict=True):
            site.plays(cluster)
            site.look()
            site.journals["a"] = RUN
            site.ends(cluster, code, run=RUN if code != 3 else "")
        site.look()
    assert site.phases() == {"a": "succeeded", "b": "blocked", "c": "rolled-back"}
    assert "cannot " not in site.said()
    assert len(site.jobs()) == 3 and not site.secrets("a")
    assert (site.folder / "clusters/a/runs" / RUN / JOURNAL).is_file()


def test_exit_code_is_the_outcome_where_no_journal_can_be_read(hub: Hub, site: Site) -> None:
    """Of clusters that don't answer at the end, success and exit 5 are what their pods say. Exit 4 doesn't say whether
    the rollback has left something failing.
    """
    with rights(hub):
        site.look()
        site.unread = Unread("no answer")
        for cluster, code in zip("abc", (0, 5, 4), strict=True):
            site.plays(cluster)
            site.ends(cluster, code, run=RUN)
        site.look()
    assert site.phases() == {"a": "succeeded", "b": "broken", "c": "broken"}
    assert "b ended with 5 (the cluster's journal can't be read: no answer)" in site.said()


def test_second_pod_of_a_job_is_the_same_attempt(hub: Hub, site: Site) -> None:
    """A pod that ended with 130 is replaced by the Job: the run goes on, and the last pod counts. A Job that gave up is
    an interrupted run, which the campaign begins again, as another attempt.
    """
    with rights(hub):
        site.look()
        site.plays("a")
        site.ends("a", 130, run=RUN, last=False)
        site.look()
        assert site.phases()["a"] == "running" and len(site.jobs()) == 3
        until("the next second", lambda: site_second(site, "a"), timeout_seconds=30)
        site.ends("a", 6, pod="y")
        site.look()
        site.look()
        assert site.phases()["a"] == "running" and site.campaign.state().clusters["a"].attempt == 2
        assert len(site.jobs()) == 4 and all(site.attempt("a", 2).name in name for name in site.secrets("a"))


def site_second(site: Site, cluster: str) -> bool:
    """Another pod, which the API server says is newer than the first: its times have no parts of seconds."""
    name, place = f"{site.attempt(cluster).name}-y", f"fleet-{cluster}"
    site.hub.kube.delete(PODS, name, place, at_once=True)
    site.plays(cluster, pod="y")
    made = {each["metadata"]["name"]: each["metadata"]["creationTimestamp"] for each in site.hub.kube.list(PODS, place)}
    return str(made[name]) > str(made[f"{site.attempt(cluster).name}-x"])


def test_coordinator_that_is_killed_goes_on(hub: Hub, site: Site) -> None:
    """Another one finds each Job by its name, begins none twice, hands on renewed credentials, and sees the end."""
    with rights(hub):
        site.look()
        site.coordinator = site.another()
        write_kubeconfig(site.folder / "clusters/a", token="renewed")
        site.look()
        site.look()
        name = f"{site.attempt('a').name}-kubeconfig"
        secret = hub.kube.get(SECRETS, name, "fleet-a")
        assert secret is not None and len(site.jobs()) == 3
        assert "renewed" in yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))["users"][0]["user"]["token"]
        site.plays("a")
        site.ends("a", 4, run=RUN)
        site.coordinator = site.another()
        site.look()
    assert site.phases() == {"a": "rolled-back", "b": "running", "c": "running"} and len(site.jobs()) == 3


def test_job_is_created_once(hub: Hub, site: Site) -> None:
    """The same Job again is no error, and no second Job; another one of its name is refused."""
    with rights(hub):
        site.look()
        executor, path = site.executor(), site.campaign.attempt("a", 1)
        digest = site.campaign.state().clusters["a"].digest.partition(".")[0]
        arguments = ["-C", "x", "--kubeconfig", "x", "run", "--to", "v1.37.1", "--yes", "-o", "json"]
        arguments += ["--campaign", site.campaign.name, "--after", "none"]
        arguments += ["--approved-inputs", digest, "--approved-copies", "x"]
        before = site.job("a")
        executor.prepare(path, arguments)()
        after = site.job("a")
        assert before and after and before["metadata"]["uid"] == after["metadata"]["uid"] and executor.running(path)
        other = replace(executor, settings=replace(executor.settings, queue="other"))
        with pytest.raises(UsageError, match="already exists, with different content"):
            other.prepare(path, arguments)()


def test_job_that_was_deleted_is_interrupted_once_its_pod_has_ended(hub: Hub, site: Site) -> None:
    """While its pod still runs, nothing else is begun; then the run is resumed by another Job."""
    with rights(hub):
        site.look()
        site.plays("a")
        hub.kube.delete(JOBS, site.attempt("a").name, "fleet-a")
        until("the Job to be gone", lambda: orphaned(site, "a"), timeout_seconds=30)
        site.look()
        assert site.phases()["a"] == "running" and site.campaign.state().clusters["a"].attempt == 1
        hub.kube.delete(PODS, f"{site.attempt('a').name}-x", "fleet-a", at_once=True)
        site.look()
        site.look()
        assert site.campaign.state().clusters["a"].attempt == 2 and site.job("a", 2) is not None


def orphaned(site: Site, cluster: str) -> bool:
    """Whether a Job is gone; no garbage collector is there to take its finalizer."""
    job = site.job(cluster)
    if job is not None and job["metadata"].get("finalizers"):
        site.hub.kube.patch(JOBS, job["metadata"]["name"], {"metadata": {"finalizers": None}}, f"fleet-{cluster}")
    return site.job(cluster) is None


def test_management_cluster_is_no_member(hub: Hub, site: Site) -> None:
    """By the UID of kube-system, a cluster of the fleet that is the management cluster is refused by name."""
    with rights(hub):
        executor = site.executor()
        executor.check()
        own = hub.kube.get(NAMESPACES, "kube-system")
        assert own is not None
        clusters = (replace(executor.fleet.clusters[0], uid=own["metadata"]["uid"]), *executor.fleet.clusters[1:])
        with pytest.raises(Blocked, match="cluster a is the management cluster itself"):
            replace(executor, fleet=replace(executor.fleet, clusters=clusters)).check()


@pytest.mark.parametrize(
    "right", [pytest.param(each, marks=[pytest.mark.soak] if each != "create jobs" else []) for each in RIGHTS]
)
def test_right_that_is_missing_is_named(hub: Hub, site: Site, right: str) -> None:
    """From a Job's beginning to its end, each right of the chart is used: without it, the campaign names it."""
    verb, _, resource = right.partition(" ")
    said = []
    with rights(hub, right):
        try:
            site.executor().check()
        except UpgraderError as error:
            said.append(f"{error.message} {error.remedy}")
        if right == "get jobs":  # it is for a Job of which the watch tells nothing
            site.coordinator.executor = site.executor(JobWatch(KubeAdapter(hub.account), site.clock, lambda _: None))
        site.coordinator.look()
        if right in ("list jobs", "watch jobs"):
            until("the watch to be refused", site.refused, timeout_seconds=60)
        if right.startswith("create secrets"):
            assert not site.jobs()
        for cluster in "abc" if site.jobs() else "":
            site.plays(cluster)
        site.clock.sleep(3661)  # logs are not read before
        site.coordinator.look()
        said.append(site.said())
        for cluster in "abc" if site.jobs() else "":
            site.ends(cluster, 4, run=RUN)
        if right == "get jobs":
            site.clock.sleep(61)
            site.coordinator.look()
        else:
            site.look()
        said.append(site.said())
    assert f'cannot {verb} resource "{resource}"' in "\n".join(said)


def test_chart_gives_no_other_right(hub: Hub) -> None:
    """Each right that the chart gives is one of those that a test takes away."""
    rules = [rule for each in hub.objects for rule in each.get("rules", ())]
    given = {f"{verb} {each}" for rule in rules for verb, each in product(rule["verbs"], rule["resources"])}
    assert given == set(RIGHTS)


def test_journals_come_from_the_cluster_itself(hub: Hub, tmp_path: Path) -> None:
    """What runs in pods have replicated to their cluster is brought into the cluster folder, and nothing there is
    replaced by less; a cluster that doesn't answer is told.
    """
    write_journal(tmp_path / "there", RUN)
    whole = (tmp_path / "there" / JOURNAL).read_bytes()
    begun = whole.splitlines(keepends=True)[0]
    here = tmp_path / "here" / "runs" / RUN / JOURNAL
    replicas = ClusterReplicas(hub.kube)
    replicas.write(RUN, begun)
    try:
        assert fetch_journals(tmp_path / "here", hub.kubeconfig) == Unread() and here.read_bytes() == begun
        here.write_bytes(whole)
        assert fetch_journals(tmp_path / "here", hub.kubeconfig) == Unread() and here.read_bytes() == whole
    finally:
        replicas.remove(RUN)
    write_kubeconfig(tmp_path, server="none.invalid")
    assert "none.invalid" in fetch_journals(tmp_path / "here", tmp_path / "kubeconfig").place


def test_container_runs_what_was_approved(hub: Hub, tmp_path: Path) -> None:
    """Where only the mounts are: `upgrader run` reads the unpacked copies, whose digest is the approved one, and asks
    the cluster, which has no control plane to upgrade; its last words are left for the kubelet.
    """
    folder = tmp_path / "fleet" / "a"
    folder.mkdir(parents=True)
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    hosts = {"controllers": {"hosts": {"cp-1": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (folder / "kubeconfig").write_bytes(hub.kubeconfig.read_bytes())
    digest, copies = folder_digest(folder), tmp_path / "work" / "copies"
    made = copy_approved(folder, tmp_path / "made", digest)
    assert made is not None
    (tmp_path / "chunks").mkdir()
    for number, chunk in enumerate(chunks_of(made, str(copies))):
        (tmp_path / "chunks" / f"{number:04}").write_bytes(chunk)
    shutil.rmtree(folder.parent)
    shutil.rmtree(made)
    ended, said = tmp_path / "termination", io.StringIO()
    arguments = ["-C", str(folder), "--kubeconfig", str(hub.kubeconfig), "run", "--to", "v1.37.1", "--yes"]
    arguments += ["-o", "json", "--approved-inputs", digest, "--resume"]
    places = (tmp_path / "chunks", folder, copies, ended)
    with end_signals() as signals:
        code = run_in_job(*places, pins_text(), arguments, output=said, signals=signals)
    end = command_end(ended.read_bytes())
    assert end is not None and end.exit_code == code, said.getvalue()
    assert (code, end.code) == (3, "Blocked"), end
    assert (folder / "upgrader.yaml").is_file() and not (folder / "hosts.yml").exists()
