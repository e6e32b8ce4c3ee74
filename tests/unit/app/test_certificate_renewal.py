"""`upgrader certs renew`: what is selected, what is refused before anything changes, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.pki import CertificateAuthority, printed
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.certificates.controllers import Certificate, Controllers, RollingKube, add_control_plane
from tests.unit.engine.killing import FROM, Fate, Killed, World
from tests.unit.gates.builders import add_node, add_pod, running
from upgrader.app import certificate_renewal
from upgrader.app.certificate_renewal import propose_renewal
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import READS_FOLDER, FrontEnd
from upgrader.app.wiring import Session
from upgrader.certificates.steps import RESTARTED_AT
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.errors import ApiError, ApiUnavailable, Blocked, HostError, StepFailed
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, PODS, WORKLOADS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.left_out import LEFT_OUT, LeftOut
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import AvailabilitySettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, KubeObject, Tools
from upgrader.preflight.context import DEPLOYMENTS

NODES_ = ("controller-1", "controller-2")
COUNTED = ("kube-apiserver", "kubernetes")
SOON, LATE = timedelta(days=20), timedelta(days=300)


@dataclass
class Place:
    """An adopted cluster of two controllers, and the words of the front end."""

    world: World
    kube: RollingKube
    hosts: Controllers
    folder: Path
    said: list[str] = field(default_factory=list)

    def renew(self, within: timedelta | None = None) -> FinishedRun | None:
        """To its end; None where there is nothing to do."""
        said = list[str]()
        front_end = FrontEnd(notify=self.said.append, doing=said.append)
        with propose_renewal(self.folder, front_end, within, take_over=False, dry_run=False) as proposed:
            assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
            return proposed.execute() if proposed.needed else None

    def serials(self, host: str = NODES_[0]) -> dict[str, int]:
        """How often each certificate was renewed."""
        return {name: found.serial for name, found in self.hosts.certificates[host].items()}

    def restarted(self, name: str) -> str:
        """When a Deployment was told to restart; "" for never."""
        found = self.kube.get(WORKLOADS["Deployment"], name, "kube-system")
        assert found is not None
        return str((found["spec"]["template"].get("metadata", {}).get("annotations") or {}).get(RESTARTED_AT) or "")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Everything healthy."""
    world = World(tmp_path / "journal.jsonl")
    kube = RollingKube(world.clock.now)
    kube.raw_answers |= world.kube.raw_answers
    kube.silent_kubelets = set()
    for name in NODES_:
        add_node(kube, name)
        node = dict(kube.get(NODES, name) or {})
        kube.put(NODES, {**node, "status": {**node["status"], "nodeInfo": {"kubeletVersion": str(FROM)}}})
        add_pod(kube, f"etcd-{name}", running(), node=name, priority_class="system-node-critical")
    add_control_plane(kube, *NODES_)
    text = "apiVersion: kubeadm.k8s.io/v1beta4\ncertificatesDir: /etc/kubernetes/pki\nkubernetesVersion: v1.36.3\n"
    config = {
        "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
        "data": {"ClusterConfiguration": text},
    }
    kube.put(CONFIG_MAPS, config)
    leaders = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {}}
        for name in ("kube-controller-manager", "kube-scheduler")
    ]
    world.helm.install("kubernetes", "\n---\n".join(map(json.dumps, leaders)))
    world.helm.install("pod-checkpointer", "")
    hosts = Controllers(world.clock.now)
    for name in NODES_:
        now = world.clock.now()
        hosts.certificates[name] = {
            "admin.conf": Certificate(now + LATE),
            "apiserver": Certificate(now + SOON),
            "front-proxy-client": Certificate(now + LATE, "front-proxy-ca"),
            "scheduler.conf": Certificate(now + LATE),
            "super-admin.conf": Certificate(now, missing=name != NODES_[0]),
        }
    settings = Settings(
        tmp_path,
        FROM,
        tmp_path / "kubeconfig",
        tmp_path / "hosts.yml",
        tuple(ReleaseSettings(name, "kube-system", values_file=tmp_path / f"{name}.yaml") for name in COUNTED),
        availability=AvailabilitySettings(0.0),
    )
    controllers = tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(NODES_, 1))
    cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, controllers)
    tools = Tools(world.helm, kube, world.playbooks, world.clock, hosts)

    @contextmanager
    def opened(_folder: Path, _target: KubernetesVersion | None = None) -> Iterator[Session]:
        yield FakeSession(settings, cluster, tools, kube, Fence(hosts, (), tools.clock))

    monkeypatch.setattr(certificate_renewal, "open_session", opened)
    monkeypatch.setattr(certificate_renewal, "_CHECKS", ())
    return Place(world, kube, hosts, tmp_path)


def test_controller_that_is_left_out_keeps_its_certificates(place: Place) -> None:
    """It is down: the others' end meanwhile, and are renewed. What is left to do there is said."""
    node = dict(place.kube.get(NODES, NODES_[1]) or {})
    marked = {**node["metadata"], "annotations": {LEFT_OUT: LeftOut("out", FROM).text()}}
    place.kube.put(NODES, {**node, "metadata": marked})
    place.kube.delete(PODS, "kube-apiserver-controller-2", "kube-system")
    place.hosts.down.add(NODES_[1])
    finished = place.renew()
    assert finished is not None and finished.error is None
    assert [step.name for step in finished.state.steps] == ["certificates controller-1", "restart"]
    assert set(place.serials().values()) == {1} and set(place.serials(NODES_[1]).values()) == {0}
    (said,) = (each for each in place.said if "left out" in each)
    assert said == (
        "Controller controller-2 is left out of runs, so this command does nothing there. Once it is back: "
        "upgrader resume, then `upgrader certs renew` again, for its certificates"
    )


def test_all_of_each_controller_in_turn(place: Place) -> None:
    """As kubeadm without names; then what reads its kubeconfig once is rolled out, where that was renewed."""
    finished = place.renew()
    assert finished is not None and finished.error is None
    assert finished.state.kind is RunKind.RENEW_CERTIFICATES
    steps = [step.name for step in finished.state.steps]
    assert steps == ["certificates controller-1", "certificates controller-2", "restart"]
    assert set(place.serials().values()) == {1}
    assert place.serials(NODES_[1]) == {**dict.fromkeys(place.serials(), 1), "super-admin.conf": 0}
    assert place.restarted("kube-scheduler") and not place.restarted("kube-controller-manager")
    lease = place.kube.get(LEASES, NAME, NAMESPACE)
    assert lease is not None and not lease["spec"].get("holderIdentity")


def test_those_that_end_soon(place: Place) -> None:
    """No other is renewed, and nothing is restarted that needs no restart; a second time there is nothing to do."""
    finished = place.renew(timedelta(days=60))
    assert finished is not None and [step.name for step in finished.state.steps] == [
        "certificates controller-1",
        "certificates controller-2",
    ]
    renewed = {name for name, serial in place.serials().items() if serial}
    assert renewed == {"apiserver", "super-admin.conf"}
    assert place.renew(timedelta(days=60)) is None


def test_restart_that_an_interrupted_renewal_left_undone(place: Place) -> None:
    """The files are new, the pods are not: the next one restarts them, though nothing is left to renew."""
    place.world.clock.sleep(60)
    place.hosts.changed["controller-2/scheduler.conf"] = place.world.clock.now()
    place.world.clock.sleep(60)
    finished = place.renew(timedelta(seconds=1))
    assert finished is not None and finished.state.steps[-1].name == "restart"
    assert place.restarted("kube-scheduler") and not place.restarted("kube-controller-manager")


def test_kubeadm_that_fails_on_the_second_controller(place: Place) -> None:
    """The first one has its own files back; nothing was restarted, and kubeadm's words are the reason."""
    place.hosts.refuses[NODES_[1]] = "kubeadm certs renew apiserver ended with 1: no space left on device"
    finished = place.renew()
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert "no space left on device" in finished.error.message
    assert set(place.serials().values()) == {0}
    assert finished.state.outcome == "rolled-back" and not place.restarted("kube-scheduler")


def test_certificate_that_is_never_served(place: Place) -> None:
    """A gate asks each controller, and what it doesn't prove is taken back."""
    place.hosts.serves_old.add(NODES_[0])
    finished = place.renew()
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert "kube-apiserver at 10.0.0.1:6443" in finished.error.message
    assert set(place.serials().values()) == {0}
    assert ("controller-2", "renew") not in {told[:2] for told in place.hosts.told}


def test_pods_that_do_not_start_again(place: Place) -> None:
    """The Deployment returns to what its pods were, then each controller's files are put back."""
    place.kube.stuck.add("kube-scheduler")
    finished = place.renew()
    assert finished is not None and finished.state.outcome == "rolled-back"
    assert [step.phase for step in finished.state.steps] == ["undone"] * 3
    assert place.restarted("kube-scheduler") == ""
    assert all(set(place.serials(name).values()) == {0} for name in NODES_)


def test_external_ca_is_refused_by_name(place: Place) -> None:
    """Before the first controller is touched, also where only the second one lacks the key."""
    place.hosts.certificates[NODES_[1]]["front-proxy-client"].external = True
    with pytest.raises(Blocked, match=r"controller-2: the key of front-proxy-ca is missing .*front-proxy-client"):
        place.renew()
    assert set(place.serials().values()) == {0}
    assert place.renew(timedelta(days=60)) is not None  # it isn't among those


def test_certificate_of_a_newer_kubeadm(place: Place) -> None:
    """Which files it would change isn't guessed, and so none is."""
    place.hosts.certificates[NODES_[1]]["new-client"] = Certificate(place.world.clock.now() + LATE)
    with pytest.raises(Blocked, match=r"doesn't know the files.*\ncontroller-2: new-client"):
        place.renew()
    assert set(place.serials().values()) == {0}


def test_what_is_not_adopted(place: Place) -> None:
    """kubeadm's own static pods are kubeadm's; so are certificates of which kube-apiserver reads no file."""
    place.world.helm.releases.pop("kubernetes")
    with pytest.raises(Blocked, match="was not adopted") as caught:
        place.renew()
    assert "upgrader adopt" in caught.value.remedy


def test_certificates_in_a_secret(place: Place) -> None:
    """kubeadm renews files that nobody reads then."""
    found = place.kube.get(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert found is not None
    found["spec"]["template"]["spec"]["volumes"][0] = {"name": "pki", "secret": {"secretName": "pki"}}
    place.kube.put(DEPLOYMENTS, found)
    with pytest.raises(Blocked, match="certificate isn't a file"):
        place.renew()


def test_other_folder_of_certificates(place: Place) -> None:
    """kubeadm is told the one that its own ConfigMap has, as Kubespray's differs."""
    config = dict(place.kube.get(CONFIG_MAPS, "kubeadm-config", "kube-system") or {})
    config["data"] = {"ClusterConfiguration": config["data"]["ClusterConfiguration"].replace("/pki", "/ssl")}
    place.kube.put(CONFIG_MAPS, config)
    place.renew()
    assert {told[2] for told in place.hosts.told if told[1] == "look"} == {"/etc/kubernetes/ssl"}
    assert {told[3] for told in place.hosts.told if told[1] == "renew"} == {"/etc/kubernetes/ssl"}


def test_config_that_can_not_be_read(place: Place) -> None:
    """Where certificates are isn't guessed then."""
    place.kube.put(CONFIG_MAPS, {"metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": {}})
    with pytest.raises(Blocked, match="kubeadm-config can't be read"):
        place.renew()


def test_controller_that_can_not_be_asked(place: Place) -> None:
    """Nothing is renewed on the others either."""
    place.hosts.commands["python3"] = CommandResult(127, "", "sh: python3: not found")
    with pytest.raises(HostError, match="python3: not found"):
        place.renew()
    assert set(place.serials().values()) == {0}


def test_expired_certificates_without_an_api(place: Place) -> None:
    """Which have expired is said by file, with what to do by hand; another API that is down is no matter of these."""
    place.kube.unavailable = True
    ca = CertificateAuthority.named("kubernetes")
    place.hosts.commands["sh"] = CommandResult(0, printed({"pki/apiserver.crt": ca.issue("x")}), "")
    with pytest.raises(ApiUnavailable) as caught:
        place.renew()
    assert "expired" not in caught.value.message
    place.world.clock.sleep(20 * 365 * 86400)
    with pytest.raises(ApiUnavailable, match=r"expired:\ncontroller-1: /etc/kubernetes/pki/apiserver\.crt") as caught:
        place.renew()
    assert "kubeadm certs renew all" in caught.value.remedy and "admin.conf" in caught.value.remedy


def test_own_certificate_has_expired(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that answers, and accepts this kubeconfig no more, is the same to the operator."""
    place.world.clock.sleep(20 * 365 * 86400)
    place.hosts.commands["sh"] = CommandResult(
        0, printed({"admin.conf": CertificateAuthority.named("k").issue("x")}), ""
    )

    def refuse(*_: object) -> None:
        error = ApiError("Unauthorized")
        error.status = 401
        raise error

    monkeypatch.setattr(place.kube, "get", refuse)
    with pytest.raises(ApiError, match="expired") as caught:
        place.renew()
    assert caught.value.status == 401


@pytest.mark.every_moment
def test_killed_at_every_moment_and_run_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one ends as the first would have: all is renewed, and whatever was not restarted is."""
    patch = place.kube.patch
    for at in range(20):
        place.world.clock.sleep(10)
        for found in place.hosts.certificates.values():
            for certificate in found.values():
                certificate.ends, certificate.serial = place.world.clock.now() + SOON, 0
        fate = Fate(at)
        place.hosts.instant = fate.instant

        def mortal(*arguments: Any, fate: Fate = fate, **named: Any) -> KubeObject:
            fate.instant("before a patch")
            found = patch(*arguments, **named)
            fate.instant("after a patch")
            return found

        monkeypatch.setattr(place.kube, "patch", mortal)
        try:
            place.renew(timedelta(days=60))
        except Killed:
            place.hosts.instant = lambda _: None
            monkeypatch.setattr(place.kube, "patch", patch)
            place.world.clock.sleep(10)
            again = place.renew(timedelta(days=60))
            assert again is None or again.error is None
        finished = place.renew(timedelta(days=60))
        assert finished is None, fate.where
        assert set(place.serials().values()) == {1}, fate.where
        if not fate.where:
            break
    assert not fate.where and fate.passed >= 6  # both controllers, and the scheduler's restart


def test_torn_files_are_mended_first(place: Place) -> None:
    """An interrupted renewal may have taken the API down: its files are put back before an API is needed."""
    place.hosts.torn[NODES_[1]] = ["apiserver"]
    finished = place.renew()
    assert finished is not None and finished.error is None
    assert "controller-2: an interrupted renewal left apiserver unusable" in place.said[0]
    assert place.hosts.told[1] == ("controller-2", "mend")


def test_dry_run_takes_no_lock_and_mends_nothing(place: Place) -> None:
    """It only looks."""
    place.hosts.torn[NODES_[1]] = ["apiserver"]
    with propose_renewal(place.folder, FrontEnd(), None, take_over=False, dry_run=True) as proposed:
        assert proposed.needed and proposed.held is None and proposed.of_administrators
    assert place.kube.get(LEASES, NAME, NAMESPACE) is None
    assert {told[1] for told in place.hosts.told} == {"look"}


def test_a_check_blocks_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control plane that isn't healthy keeps its certificates."""
    finding = Finding("nodes.not-ready", "error", "controller-2 is not Ready")
    monkeypatch.setattr(certificate_renewal, "_CHECKS", (("nodes", lambda _: iter([finding])),))
    with pytest.raises(Blocked, match="a check blocks the renewal"):
        place.renew()
    assert set(place.serials().values()) == {0}
