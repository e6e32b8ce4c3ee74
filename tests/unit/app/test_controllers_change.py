"""Adding and removing controllers: what was true before the cluster's lock is looked at again under it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import certificate
from tests.unit.adopt.kubeadm_pods import kubeadm_pod, volume
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import FROM, TO, World
from tests.unit.gates.builders import add_node
from upgrader.adopt.facts import MANIFESTS
from upgrader.adopt.node_withdrawal import CONTROL_PLANE
from upgrader.adopt.removal_steps import LeaveEtcdStep
from upgrader.app import controller_removal, new_controllers
from upgrader.app.controller_removal import LeavingController, ProposedRemoval, leaving_controller
from upgrader.app.front_end import FrontEnd
from upgrader.app.new_controllers import FoundControllers, found_controllers
from upgrader.app.wiring import Session
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.locks.fence import Fence
from upgrader.errors import Blocked
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES, NODES, WORKLOADS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import Event, RunEnded, RunStarted
from upgrader.model.left_out import LEFT_OUT, LeftOut
from upgrader.model.release import ReleaseSpec
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, AvailabilitySettings, Degraded, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Tools

NAMES = ("controller-1", "controller-2", "controller-3")
LAST = NAMES[-1]
CHECKS_OF_NEW = new_controllers._CHECKS
UNASKED = (
    "booted",
    "kubelet",
    "containerd",
    "runtime",
    "spaces",
    "certificates",
    "api",
    "containers",
    "workloads",
    "etcd_named_here",
)


@dataclass
class Place:
    """An adopted cluster of three controllers; its etcd has a member on each."""

    kube: FakeKube
    hosts: FakeHosts
    world: World
    folder: Path
    leader: str = "id1"
    members: list[str] = field(default_factory=lambda: ["id1", "id2", "id3"])
    holder: str = ""
    """The controller that has the virtual IP which the kubeconfig leads to."""
    keys: dict[str, str] = field(default_factory=dict)
    """Controller → the digest of the key of its tokens."""

    def removal(self, *, dead: bool = False) -> AbstractContextManager[LeavingController]:
        """That of the last controller, before the lock."""
        return leaving_controller(self.folder, LAST, FrontEnd(), dead=dead)

    def adoption(self) -> AbstractContextManager[FoundControllers]:
        """That of controllers that joined, before the lock."""
        return found_controllers(self.folder, FrontEnd())

    def run_version(self, version: KubernetesVersion, others: KubernetesVersion | None = None) -> None:
        """Have the releases be of that version, or all but kube-apiserver's of another one."""
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            version = version if name == "kube-apiserver" or others is None else others
            labels = {"app.kubernetes.io/version": str(version)}
            spec = {"template": {"spec": {"nodeSelector": {CONTROL_PLANE: ""}}}}
            found = {"metadata": {"name": name, "labels": labels}, "spec": spec}
            self.kube.put(WORKLOADS["Deployment"], found, "kube-system")

    def interrupt(
        self, kind: RunKind, *more: Event, after: bool = False, current: KubernetesVersion | None = FROM
    ) -> None:
        """A run that was killed: its journal has no end, unless these records are one. `after`: it is the second."""
        folder = self.folder / "runs" / f"2026010{2 if after else 1}T000000-{kind}"
        folder.mkdir(parents=True)
        journal = Journal(folder / JOURNAL, self.world.clock)
        journal.emit(RunStarted(folder.name, kind, ("a",), f"runs/{folder.name}", target=TO, current=current))
        for event in more:
            journal.emit(event)
        journal.close()

    def newest_upgrade(self) -> str:
        """The name of the upgrade that was interrupted."""
        return next(each.name for each in (self.folder / "runs").iterdir() if each.name.endswith(RunKind.UPGRADE))

    def die(self) -> None:
        """The last controller loses its power."""
        self.hosts.down.add(LAST)
        node = dict(self.kube.get(NODES, LAST) or {})
        self.kube.put(
            NODES, {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}}
        )

    def leave_out_first(self, *, away: bool = False) -> None:
        """The first controller is marked as left out; `away`: its node is unreachable, too."""
        node = dict(self.kube.get(NODES, NAMES[0]) or {})
        mark = {"labels": {}, "annotations": {LEFT_OUT: LeftOut("out", FROM).text()}}
        node["metadata"] = {**node["metadata"], **mark}
        if away:
            node["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}
            node["status"] = {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
        self.kube.put(NODES, node)

    def interfaces(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        """The addresses of a controller."""
        found = (f"10.0.0.{host.name[-1]}/24", *(["10.0.0.9/32"] if host.name == self.holder else []))
        return CommandResult(0, "".join(f"2: eth0    inet {each} scope global\n" for each in found), "")

    def examined(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        """What the program that examines a controller prints there."""
        members = [
            {"id": each, "name": f"controller-{each[-1]}", "peers": [], "clients": [], "learner": False}
            for each in self.members
        ]
        server = {"healthy": True, "id": f"id{host.name[-1]}", "leader": self.leader, "members": members}
        facts: dict[str, Any] = {name: {"unknown": "not asked"} for name in (*UNASKED, "complaints", "clients")}
        facts |= {name: {"unknown": "not asked"} for name in ("cgroups", "updates")}
        facts |= {"taken": 0.0, "took": 0.0}
        key = {"/etc/kubernetes/pki/sa.pub": self.keys.get(host.name, "a")}
        facts["identity"] = {"machine_id": host.name, "keys": key, "ephemeral": [], "reserved": [], "migrate_req": 1}
        facts["manifests"] = {"exists": True, "files": ["etcd.yaml"]}
        own = {"manifest": True, "data_dir": "/var/lib/etcd", "data": "present", "service": None}
        facts["etcd"] = {**own, "flags": {}, "backups": []}
        facts["etcd_server"] = {**server, "alarms": [], "has_cluster": True}
        return CommandResult(0, json.dumps(facts), "")


def rendered(spec: ReleaseSpec, **_how: object) -> str:
    """A release's Deployment."""
    template: dict[str, Any] = {"spec": {"containers": []}}
    meta = {"name": spec.name, "labels": {"version": spec.values.get("kubernetesVersion", str(FROM))}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"template": template}})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Everything healthy."""
    return healthy_place(tmp_path, monkeypatch, controller_removal, new_controllers)


def healthy_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *use_cases: ModuleType, degraded: Degraded = "refuse"
) -> Place:
    """The same, as these modules open it; their own checks find nothing."""
    world = World(tmp_path / "journal.jsonl")
    made = Place(world.kube, FakeHosts(), world, tmp_path)
    made.hosts.commands |= {"python3": made.examined, "true": CommandResult(0, "", ""), "sh": CommandResult(0, "", "")}
    made.hosts.commands["ip"] = made.interfaces
    monkeypatch.setattr(world.helm, "render", rendered)
    for number, name in enumerate(NAMES, 1):
        add_node(world.kube, name)
        node = dict(world.kube.get(NODES, name) or {})
        addresses = [{"type": "InternalIP", "address": f"10.0.0.{number}"}]
        status = {**node["status"], "addresses": addresses, "nodeInfo": {"kubeletVersion": str(FROM)}}
        meta = {**node["metadata"], "labels": {CONTROL_PLANE: ""}}
        world.kube.put(NODES, {**node, "metadata": meta, "status": status})
    made.run_version(FROM)
    releases = []
    for name in BUILT_IN_CHARTS:
        world.helm.install(name, rendered(ReleaseSpec(name, "", Path(), {})))
        file = tmp_path / f"{name}.yaml"
        file.write_text("clusterName: demo\n")
        releases.append(ReleaseSettings(name, "kube-system", values_file=file))
    server = {"name": "demo", "cluster": {"server": "https://10.0.0.9:6443"}}
    context = {"name": "demo", "context": {"cluster": "demo"}}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({"clusters": [server], "contexts": [context]}))
    settings = Settings(
        tmp_path,
        FROM,
        tmp_path / "kubeconfig",
        tmp_path / "hosts.yml",
        tuple(releases),
        availability=AvailabilitySettings(0.0),
        degraded=degraded,
    )
    controllers = tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(NAMES, 1))
    cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, controllers)
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, made.hosts)

    @contextmanager
    def opened(_folder: Path, target: KubernetesVersion | None = None) -> Iterator[Session]:
        yield FakeSession(
            replace(settings, target=target or FROM), cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock)
        )

    for module in use_cases:
        monkeypatch.setattr(module, "open_session", opened)
        monkeypatch.setattr(module, "_CHECKS", ())
    return made


COMMANDS: tuple[Callable[[Place], AbstractContextManager[LeavingController | FoundControllers]], ...] = (
    Place.removal,
    Place.adoption,
)


@pytest.mark.parametrize("command", COMMANDS)
def test_version_that_another_command_has_changed_meanwhile(place: Place, command: Any) -> None:
    """It would be planned back: the version was read before the lock, while somebody else upgraded."""
    with command(place) as found:
        with found.propose(take_over=False):
            pass
        place.run_version(TO)
        with pytest.raises(Blocked, match=f"from {FROM} to {TO}; the cluster was not changed") as caught:
            found.propose(take_over=False).__enter__()
    assert caught.value.remedy.startswith("Run the same command again")


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_done_in_the_middle_of_an_upgrade(place: Place, command: Any) -> None:
    """Neither where it was interrupted before, nor where it was between the first look and the lock."""
    with command(place) as found:
        place.interrupt(RunKind.UPGRADE)
        with pytest.raises(Blocked, match=r"upgrade .* is not complete"):
            found.propose(take_over=False).__enter__()
    with pytest.raises(Blocked, match=r"upgrade .* is not complete") as caught:
        command(place).__enter__()
    assert "upgrader resume" in caught.value.remedy


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", [RunKind.REMOVE_CONTROLLER, RunKind.ADOPT_NEW])
def test_interrupted_command_is_continued(place: Place, command: Any, kind: RunKind) -> None:
    """Its own run has no end either, and the same command is its way to one."""
    place.interrupt(kind)
    with command(place) as found, found.propose(take_over=False) as proposed:
        assert proposed


def test_dead_controller_leaves_after_an_upgrade_that_failed_without_it(place: Place) -> None:
    """It died during that upgrade: no gate of it passes again, neither forward nor back. One that was interrupted ends
    first, and the message says how to go on where it fails.
    """
    place.die()
    place.interrupt(RunKind.UPGRADE)
    with pytest.raises(Blocked, match=r"upgrade .* is not complete \(interrupted\)") as caught:
        place.removal(dead=True).__enter__()
    assert "upgrader resume" in caught.value.remedy
    assert f"If that fails because {LAST} is dead, run the same command again" in caught.value.remedy
    folder = next((place.folder / "runs").iterdir())
    journal = Journal.reopen(folder / JOURNAL, place.world.clock)
    journal.emit(RunEnded(folder.name, "failed", 1.0, "kube-apiserver is not Ready"))
    journal.close()
    place.run_version(TO, others=FROM)
    with place.removal(dead=True) as leaving, leaving.propose(take_over=False) as proposed:
        targets = {item.step.name: getattr(item.step, "spec", None) for item in proposed.pipeline.steps}
    spec = targets["kube-apiserver"]
    assert spec is not None and spec.values["kubernetesVersion"] == str(TO), "as far as the upgrade has come"
    assert targets["kubernetes"] is None, "the removal is no upgrade"


def test_controller_that_was_left_out_returns_in_the_place_of_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is back, another one died: with neither of them, one controller would be left. Of one that lives, nothing is
    taken while another is left out; nor where both are away.
    """
    place = healthy_place(tmp_path, monkeypatch, controller_removal, new_controllers)
    first = NAMES[0]
    place.leave_out_first()
    with pytest.raises(Blocked, match=f"controller {first} is left out of runs; nothing was changed") as caught:
        place.removal().__enter__()
    assert "upgrader resume" in caught.value.remedy
    place.die()
    with place.removal(dead=True) as leaving, leaving.propose(take_over=False) as proposed:
        steps = [item.step.name for item in proposed.pipeline.steps]
        asked = proposed.pipeline.steps[0].gates
    assert steps == [
        *("healthy", "withdraw", "etcd", "node", "take-back", "kube-apiserver", "kubernetes", "returned", "mark")
    ]
    asked_first = {host.name for gate in asked for host in gate.gate.cluster.controllers}  # type: ignore[attr-defined]
    assert asked_first == {NAMES[1]}
    place.leave_out_first(away=True)
    with pytest.raises(Blocked, match=f"too few controllers would remain without {LAST}, because {first} is left out"):
        place.removal(dead=True).__enter__()


def test_controller_that_is_left_out_is_asked_for_no_address(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of five may be away while another one is dead: one that takes part resolves the API's names."""
    place.leave_out_first(away=True)
    place.die()
    asked: list[str] = []
    monkeypatch.setattr(controller_removal, "_LEAST", 1)  # as if there were five
    monkeypatch.setattr(controller_removal, "check_endpoints", lambda _hosts, host, *_: asked.append(host.name))
    with place.removal(dead=True):
        assert asked == [NAMES[1]]


def etcd_step(proposed: ProposedRemoval) -> LeaveEtcdStep:
    """The step that removes the member."""
    (found,) = (item.step for item in proposed.pipeline.steps if isinstance(item.step, LeaveEtcdStep))
    return found


@pytest.mark.parametrize("use", [leaving_controller, found_controllers])
def test_something_is_said_before_the_first_request(
    place: Place, monkeypatch: pytest.MonkeyPatch, use: Callable[..., AbstractContextManager[object]]
) -> None:
    """And nothing any more once the command shows what it has found."""
    order, check = list[str](), place.kube._check

    def asked(what: str) -> None:
        order.append(what)
        check(what)

    monkeypatch.setattr(place.kube, "_check", asked)
    named, options = ((LAST,), {"dead": False}) if use is leaving_controller else ((), {})
    with use(place.folder, *named, FrontEnd(doing=order.append), **options):
        assert order[0] == "reading the cluster's folder…" and order[-1] == "" and len(order) > 3


def test_leader_of_now_hands_over(place: Place) -> None:
    """Etcd may have elected the leaving member since it was looked at."""
    with place.removal() as leaving:
        assert (leaving.member.member, leaving.member.successor) == ("id3", "")
        place.leader = "id3"
        with leaving.propose(take_over=False) as proposed:
            assert etcd_step(proposed).member.successor == "id1"


def test_members_that_have_changed_meanwhile(place: Place) -> None:
    """Another process has removed a controller: without this one, too, etcd would lose its majority, or its number."""
    with place.removal() as leaving:
        place.members.append("id4")
        with pytest.raises(Blocked, match="3 would be left instead of 2; the cluster was not changed"):
            leaving.propose(take_over=False).__enter__()
        place.members[:] = ["id1", "id3"]
        place.hosts.down.add("controller-1")
        with pytest.raises(Blocked, match="no other voting member of etcd is healthy"):
            leaving.propose(take_over=False).__enter__()


def test_machine_that_died_or_came_back_meanwhile(place: Place) -> None:
    """The steps for a dead machine ask it nothing: they are not for one that lives, nor the other way round."""
    with place.removal() as leaving:
        place.die()
        with pytest.raises(Blocked, match="controller-3 no longer answers"):
            leaving.propose(take_over=False).__enter__()
    with place.removal(dead=True) as leaving:
        with leaving.propose(take_over=False) as proposed:
            assert etcd_step(proposed).pods is None
        place.hosts.down.clear()
        with pytest.raises(Blocked, match="controller-3 answers over SSH, so it isn't dead"):
            leaving.propose(take_over=False).__enter__()


def test_controller_that_may_live_is_not_removed_as_dead(place: Place) -> None:
    """Its etcd would lose its member under it: the login is refused there, or its kube-apiserver still serves."""
    place.die()
    place.hosts.down.clear()
    place.hosts.refusing.add(LAST)
    with pytest.raises(Blocked, match=f"{LAST} .*login refused; nothing was changed"):
        place.removal(dead=True).__enter__()
    place.hosts.refusing.clear()
    place.hosts.down.add(LAST)
    serving = {"metadata": {"name": "kubernetes"}, "endpoints": [{"addresses": ["10.0.0.3"]}]}
    place.kube.put(ENDPOINT_SLICES, serving, "default")
    with pytest.raises(Blocked, match=f"nothing answers SSH on {LAST}, but its kube-apiserver serves"):
        place.removal(dead=True).__enter__()
    place.kube.put(ENDPOINT_SLICES, {**serving, "endpoints": []}, "default")
    with place.removal(dead=True) as leaving:
        assert leaving.dead


def test_new_controller_with_keys_of_its_own(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tokens would be refused by the other kube-apiservers; and what its clock says is no other one's time."""
    asked = tuple(item for item in CHECKS_OF_NEW if item[0] in ("keys", "clocks"))
    monkeypatch.setattr(new_controllers, "_CHECKS", asked)
    place.keys[LAST] = "b"
    with place.adoption() as found:
        assert {finding.id for finding in found.findings} == {"keys.differ", "clocks.off"}
        with pytest.raises(Blocked, match="a check blocks the adoption"):
            found.check_allowed()


def test_new_controller_with_more_than_any_release_could_have(place: Place) -> None:
    """As `adopt` refuses it: a second container would be gone with kubeadm's static pod."""
    pod = kubeadm_pod("kube-apiserver").pod
    pod["spec"]["containers"].append({"name": "kms-plugin", "image": "registry.example.org/kms:v1"})
    place.hosts.files[LAST, f"{MANIFESTS}/kube-apiserver.yaml"] = yaml.safe_dump(pod).encode()
    with (
        pytest.raises(Blocked, match="kube-apiserver's static pod on controller-3 has another container, kms-plugin"),
        place.adoption(),
    ):
        pass


def test_new_controller_that_advertises_another_address(place: Place) -> None:
    """As `adopt` refuses it: kubeadm join was given the address of another network than its kubelet."""
    pod = kubeadm_pod("kube-apiserver", {"advertise-address": "192.168.56.13"}).pod
    place.hosts.files[LAST, f"{MANIFESTS}/kube-apiserver.yaml"] = yaml.safe_dump(pod).encode()
    with (
        pytest.raises(
            Blocked, match=r"on controller-3 advertises 192\.168\.56\.13, but its node's InternalIP is 10\.0\.0\.3"
        ),
        place.adoption(),
    ):
        pass


def test_new_controller_whose_scheduler_uses_a_load_balancer_of_its_own(place: Place) -> None:
    """As `adopt` refuses it: the chart's pods don't use the host network, and have nothing at that address."""
    pod, conf = kubeadm_pod("kube-scheduler").pod, "/etc/kubernetes/scheduler.conf"
    place.hosts.files[LAST, f"{MANIFESTS}/kube-scheduler.yaml"] = yaml.safe_dump(pod).encode()
    place.hosts.files[LAST, conf] = b"clusters: [{cluster: {server: 'https://127.0.0.1:8443'}}]"
    place.hosts.commands["sh"] = lambda _, __, asked: CommandResult(
        0, f"8180 0 0 {conf}\n" if conf in asked.decode().splitlines() else "", ""
    )
    with pytest.raises(Blocked, match=f"{LAST}: {conf} has the server https://127.0.0.1:8443"), place.adoption():
        pass


def test_new_controller_with_a_closed_socket(place: Place) -> None:
    """As `adopt` refuses it: its KMS plugin isn't root, so the chart's kube-apiserver couldn't connect to it."""
    config, socket = "/etc/kubernetes/enc/config.yaml", "/run/kms/kms.sock"
    own = volume("enc", "/etc/kubernetes/enc"), volume("kms", "/run/kms")
    pod = kubeadm_pod("kube-apiserver", {"encryption-provider-config": config}, *own, address="10.0.0.3").pod
    place.hosts.files |= {
        (LAST, f"{MANIFESTS}/kube-apiserver.yaml"): yaml.safe_dump(pod).encode(),
        (LAST, "/etc/kubernetes/pki/apiserver.crt"): certificate(["10.0.0.3"]),
        (LAST, config): f"resources: [{{providers: [{{kms: {{endpoint: 'unix://{socket}'}}}}]}}]".encode(),
    }
    modes = {config: "8180 0 0", socket: "c1ed 65532 65532"}
    place.hosts.commands["sh"] = lambda _, __, asked: CommandResult(
        0, "".join(f"{mode} {path}\n" for path, mode in modes.items() if path in asked.decode().splitlines()), ""
    )
    with pytest.raises(Blocked, match=f"{LAST}: .* can't read {socket}"), place.adoption():
        pass


def test_new_controller_that_refuses_the_health_check(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `adopt` refuses it: its copy of the authentication configuration isn't that of the others."""
    config = "/etc/kubernetes/own/authentication.yaml"
    pod = kubeadm_pod("kube-apiserver", {}, volume("own", "/etc/kubernetes/own"), address="10.0.0.3").pod
    place.hosts.files |= {
        (LAST, f"{MANIFESTS}/kube-apiserver.yaml"): yaml.safe_dump(pod).encode(),
        (LAST, "/etc/kubernetes/pki/apiserver.crt"): certificate(["10.0.0.3"]),
        (LAST, config): b"anonymous: {enabled: false}",
    }
    values = {"extraArgs": {"authentication-config": config}, "health": {"token": False}}
    monkeypatch.setattr(new_controllers, "_api_values", lambda _: values)
    with pytest.raises(Blocked, match=f"{LAST}: {config} .* rejects anonymous requests"), place.adoption():
        pass


def test_virtual_ip_that_the_controller_holds(place: Place) -> None:
    """What keeps it there goes on without an API behind it: it is to move first."""
    place.holder = NAMES[0]
    with place.removal() as leaving:
        assert leaving.server == "https://10.0.0.1:6443"
    place.holder = LAST
    with pytest.raises(Blocked, match=r"clients use the API at 10\.0\.0\.9, an address of controller-3") as caught:
        place.removal().__enter__()
    assert "keepalived" in caught.value.remedy
