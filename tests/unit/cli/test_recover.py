"""`upgrader recover` as a command: what it shows and asks before it acts, and its exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.gates.builders import add_deployment, add_node, add_pod, running
from tests.unit.recover.controllers import controller
from upgrader.app import recovery
from upgrader.app.execution import FinishedRun, NewRun
from upgrader.cli.main import cli
from upgrader.engine.state.run_state import RunState
from upgrader.errors import RollbackFailed, UsageError
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Cluster
from upgrader.model.gate_settings import GatePolicy
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.pipeline import RecoverTools


class Site:
    """A cluster folder whose controller is as `seen` describes; pipelines that would be run are in `ran`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kube, self.helm, self.hosts = FakeKube(), FakeHelm(), FakeHosts()
        self.seen: tuple[Controller, ...] = (controller(),)
        self.ran: list[tuple[str, ...]] = []
        self.locked = 0
        self.asked_only: tuple[str, ...] = ()
        self.cluster = Cluster(folder, folder / "kubeconfig", "lab", folder / "hosts.yml", (self.seen[0].host,))
        self.left_out: tuple[str, ...] = ()

    def without_left_out(self, tell: Callable[[str], None], **_: str) -> Site:
        """What `Session.without_left_out` returns where no controller is left out."""
        return self

    def recover_tools(self, only: tuple[str, ...] = ()) -> RecoverTools:
        """What `Session.recover_tools` returns."""
        self.asked_only = only
        return RecoverTools(
            hosts=self.hosts,
            helm=self.helm,
            kube=self.kube,
            clock=FakeClock(),
            cluster=self.cluster,
            examine=lambda: Diagnosis(ApiSeen(not self.kube.unavailable, "refused"), self.seen, ()),
            recovery=FakeRecovery(self.kube),
            gates=GateCatalog(self.kube, FakeClock(), self.cluster, GatePolicy()),
            helm_timeout_seconds=300,
        )

    def without_probe(self) -> Site:
        """What `Session.without_probe` returns."""
        return self

    def healthy(self) -> None:
        """The API answers, and everything that gates check is healthy."""
        self.seen = (controller(serves=True),)
        self.kube.raw_answers["/readyz"] = "ok"
        self.kube.raw_answers["https://10.0.0.1:6443/readyz"] = "ok"
        self.helm.install("kube-apiserver", "kind: Deployment\nmetadata: {name: kube-apiserver}\n")
        add_deployment(self.kube, "kube-apiserver")
        add_pod(self.kube, "kube-apiserver", running(), priority_class="system-node-critical", host_ip="10.0.0.1")
        add_node(self.kube, "controller-1")
        self.kube.silent_kubelets = set()

    def invoke(self, *arguments: str, answer: str = "") -> Result:
        """Run the command."""
        return CliRunner().invoke(cli, ["-C", str(self.folder), "recover", *arguments], input=answer)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A cluster with an unreachable API and a good checkpoint on its controller."""
    site = Site(tmp_path)
    site.kube.unavailable = True

    @contextmanager
    def opened(_folder: Path) -> Iterator[Site]:
        yield site

    def executed(_session: object, _front_end: object, new: NewRun, **_options: object) -> FinishedRun:
        site.ran.append(tuple(item.step.name for item in new.pipeline.steps))
        return FinishedRun(RunState(), site.folder)

    @contextmanager
    def locked(_session: object, _front_end: object, *, take_over: bool) -> Iterator[None]:
        site.locked += 1
        yield

    monkeypatch.setattr(recovery, "open_session", opened)
    monkeypatch.setattr(recovery, "cluster_lock", locked)
    monkeypatch.setattr(recovery, "execute_run", executed)
    return site


def test_dry_run_says_what_would_be_done(site: Site) -> None:
    """The diagnosis and the steps are shown; nothing is run, no question is asked, and no lock is left behind. A script
    is told by 7 that there is something to recover.
    """
    result = site.invoke("--dry-run")
    assert result.exit_code == 7
    assert "controller-1: start kube-apiserver from its generation 4" in result.stderr
    assert site.ran == []
    assert list(site.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("labels", "says", "remedy"),
    [
        ({"component": "kube-apiserver", "tier": "control-plane"}, "kubeadm's own static pods", "upgrader adopt"),
        ({"app": "kube-apiserver"}, "its standby pod", "upgrader run --to v1.36.3"),
    ],
    ids=["never adopted", "uninstalled"],
)
@pytest.mark.parametrize("arguments", [("--dry-run",), ("--yes",)])
def test_release_that_is_not_installed(
    site: Site, labels: dict[str, str], says: str, remedy: str, arguments: tuple[str, ...]
) -> None:
    """Nothing is offered that can't be done: the error comes first, and the remedy has the version that runs."""
    site.kube.unavailable = False
    site.healthy()
    site.helm = FakeHelm()
    site.kube.delete(WORKLOADS["Deployment"], "kube-apiserver", "kube-system")
    site.kube.raw_answers["/version"] = '{"gitVersion": "v1.36.3"}'
    add_pod(site.kube, "kube-apiserver-controller-1", running(), labels=labels, host_ip="10.0.0.1")
    error = site.invoke(*arguments).exception
    assert isinstance(error, RollbackFailed) and says in error.message and remedy in error.remedy
    assert "not installed" in error.message and site.ran == []


@pytest.mark.parametrize("arguments", [("--dry-run",), ("--yes",)])
def test_records_that_this_helm_does_not_find(site: Site, arguments: tuple[str, ...]) -> None:
    """kube-apiserver's own pods serve: no standby pod is named, and no run that would install it over them."""
    site.kube.unavailable = False
    site.healthy()
    site.helm = FakeHelm()
    error = site.invoke(*arguments).exception
    assert isinstance(error, RollbackFailed) and site.ran == []
    assert "Deployment kube-system/kube-apiserver exists" in error.message and "standby" not in error.message
    assert "HELM_DRIVER" in error.remedy and "upgrader run" not in error.remedy


def test_it_asks_before_it_starts(site: Site) -> None:
    """Without a yes nothing is run."""
    assert site.invoke(answer="n\n").exit_code == 1
    assert site.ran == []
    assert site.invoke(answer="y\n").exit_code == 0
    assert site.ran == [("api", "kube-apiserver", "hand-over")]


def test_yes_asks_nobody(site: Site) -> None:
    """With --yes it starts at once; without an API there is no lock of the cluster's to wait for."""
    assert site.invoke("--yes").exit_code == 0
    assert (len(site.ran), site.locked) == (1, 0)


@pytest.mark.parametrize("flag", ["--yes", "--dry-run"])
def test_healthy_cluster(site: Site, flag: str) -> None:
    """Where all is healthy it reports that, and ends with 0."""
    site.kube.unavailable = False
    site.healthy()
    result = site.invoke(flag)
    assert result.exit_code == 0, result.output
    assert "Nothing to recover" in result.stderr
    assert site.ran == []


def test_api_that_answers_over_a_broken_release(site: Site) -> None:
    """An API that answers is not enough: what is still wrong is shown, and fixed, under the cluster's lock."""
    site.kube.unavailable = False
    site.healthy()
    site.helm.install("kube-apiserver", "", "failed")
    assert site.invoke("--dry-run").exit_code == 7
    result = site.invoke("--yes")
    assert "The API answers, but: release kube-apiserver: revision 2 is failed" in result.stderr
    assert (len(site.ran), site.locked) == (1, 1)


@pytest.mark.parametrize("flags", [(), ("--yes",), ("--dry-run",)])
def test_what_only_a_person_can_mend(site: Site, flags: tuple[str, ...]) -> None:
    """Where a recovery must not act, it shows why, asks nothing and does nothing; exit code 5."""
    site.seen = (controller(blocked="etcd has lost its data"),)
    result = site.invoke(*flags)
    assert isinstance(result.exception, RollbackFailed)
    assert "etcd has lost its data" in result.exception.message
    assert site.ran == []


def test_only_the_named_controllers(site: Site) -> None:
    """--host is passed on; a name that isn't in the inventory is refused, with those that are."""
    site.invoke("--yes", "--host", "controller-1")
    assert site.asked_only == ("controller-1",)
    result = site.invoke("--host", "controller-9")
    assert isinstance(result.exception, UsageError)
    assert "controller-1" in result.exception.remedy
