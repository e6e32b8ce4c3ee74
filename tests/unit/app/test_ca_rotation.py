"""`upgrader certs rotate-ca`: everything trusts both CAs, or the old one alone again, from wherever it was."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from testkit.pki import CertificateAuthority, encoded
from tests.unit.app.test_upgrade import FakeSession
from tests.unit.certificates.controllers import STARTED, RollingKube, add_control_plane
from tests.unit.engine.killing import FROM, STRIDE, Fate, Killed, World
from tests.unit.gates.builders import add_daemonset, add_node, add_pod, running
from upgrader.app import ca_rotation
from upgrader.app.ca_rotation import Phase, found_cas, show_cas
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import READS_FOLDER, FrontEnd
from upgrader.app.values_edit import write_edited
from upgrader.app.wiring import Session
from upgrader.certificates.trust_gates import ROOT_CA
from upgrader.certificates.trust_steps import TRUSTED_CA
from upgrader.engine.locks.fence import Fence
from upgrader.errors import Blocked, HostError, RollbackFailed, StepFailed, UsageError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, NODES, SECRETS, WORKLOADS
from upgrader.model.ca_trust import CaTrust, RotationStage
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.release import ReleaseSpec
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, AvailabilitySettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.certificates.bundles import added, certificates, fingerprint, removed
from upgrader.ports import CommandResult, KubeObject, Tools

CONTROLLERS, WORKER = ("controller-1", "controller-2", "controller-3"), "worker-1"
NODES_ = (*CONTROLLERS, WORKER)
PKI = "/etc/kubernetes/pki"
OLD_CA = CertificateAuthority.named("kubernetes")
OLD = OLD_CA.pem
OF_CONTROLLERS = ("apiserver", "apiserver-kubelet-client", "admin.conf", "controller-manager.conf", "kubelet")
SIGNING = "signing-ca.crt"
SECRET = "a key that nobody may see"
QUESTIONS = ("look", "refused", "accepting", "served", "key", "issue", "mend")
LEADERS = ("kube-controller-manager", "kube-scheduler")


@dataclass
class TrustingHosts(FakeHosts):
    """Nodes that understand what a rotation sends them."""

    now: Callable[[], datetime]
    trusts: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NODES_, OLD))
    """Node → the CAs that its files trust, as PEM."""
    made: dict[str, str] = field(default_factory=dict)
    """Controller → the new CA that it keeps."""
    signing: set[str] = field(default_factory=set)
    """Controllers that have the CA that signs in a file of its own."""
    changed: dict[str, datetime] = field(default_factory=dict)
    never_accepts: set[str] = field(default_factory=set)
    """Addresses at which clients of the new CA are never accepted."""
    refuses: dict[str, str] = field(default_factory=dict)
    """Node → why it trusts nothing new."""
    signs: dict[str, str] = field(default_factory=lambda: dict.fromkeys(CONTROLLERS, OLD))
    kept: dict[str, str] = field(default_factory=dict)
    """Controller → the old CA that it keeps."""
    issued: dict[str, dict[str, str]] = field(
        default_factory=lambda: {
            name: dict.fromkeys(OF_CONTROLLERS if name in CONTROLLERS else ("kubelet",), OLD) for name in NODES_
        }
    )
    """Node → kubeadm's name of a certificate → the CA that has issued it."""
    before: dict[tuple[str, str], Callable[[], None]] = field(default_factory=dict)
    """What puts back what a renewal has changed on a node."""
    authorities: dict[str, CertificateAuthority] = field(default_factory=lambda: {OLD: OLD_CA})
    still_accepts: set[str] = field(default_factory=set)
    """Addresses at which clients of the old CA are never refused."""
    told: list[tuple[str, ...]] = field(default_factory=list)
    """Node, command and arguments, in their order."""
    instant: Callable[[str], None] = lambda _: None
    """Called after each change."""

    def __post_init__(self) -> None:
        super().__init__()
        self.commands = {"python3": self._python, "stat": self._stat, "sh": CommandResult(0, "", "")}

    def _python(self, host: Host, command: Sequence[str], sent: bytes) -> CommandResult:
        what, *words = command[3:]
        self.told.append((host.name, what, *words))
        if what in ("trust", "sign", "kubelet") and host.name in self.refuses:
            return CommandResult(0, json.dumps({"failed": self.refuses[host.name]}), "")
        secrets = ast.literal_eval(sent.split(b"\n", 1)[0].decode().partition(" = ")[2])
        answer = self._answer(host.name, what, [*words, *secrets])
        if what not in QUESTIONS:
            self.instant(f"after {what} {host.name}")
        return CommandResult(0, f"{json.dumps(answer)}\n", "")

    def _answer(self, name: str, what: str, words: Sequence[str]) -> dict[str, Any]:
        if what == "look":
            prints = [fingerprint(each) for each in certificates(self.trusts[name])]
            files = [{"path": f"{words[0]}/ca.crt", "trusts": prints}]
            signs, made, kept = (each.get(name, "") for each in (self.signs, self.made, self.kept))
            issued = [{"name": what, "path": what, "by": fingerprint(pem)} for what, pem in self.issued[name].items()]
            return {"files": files, "signs": signs, "made": made, "kept": kept, "issued": issued, "late": ""}
        if what == "accepting":
            return {"lines": [f"{each} still trusts it" for each in words if each.split()[1] in self.still_accepts]}
        if what == "refused":
            lines = [f"{each} doesn't trust it" for each in words if each.split()[1] in self.never_accepts]
            return {"lines": lines}
        if what == "make":
            if name not in self.made:
                new = CertificateAuthority.named("kubernetes")
                self.made[name] = new.pem
                self.authorities[self.made[name]] = new
            return {"made": self.made[name]}
        if what == "forget":
            self.made.pop(name, None)
            self.signing -= {name} if words else set()
            if words:
                self.kept.pop(name, None)
            return {}
        if what == "signing":
            self.signing.add(name)
            return {}
        if what in ("mend", "served", "key", "issue", "sign", "put-back", "kubelet", "kubelet-back"):
            return self._signed(name, what, words)
        before = self.trusts[name]
        pem = words[2]
        if what == "trust" and pem not in before:
            self.trusts[name] = before + pem
        if what == "distrust":
            self.trusts[name] = removed(before, pem)
        if self.trusts[name] != before:
            self.changed[name] = self.now()
        return {"changed": [] if self.trusts[name] == before else ["ca.crt"], "restarted": True}

    def _signed(self, name: str, what: str, words: Sequence[str]) -> dict[str, Any]:
        """What it is asked and told when a new CA signs."""
        if what == "mend":
            return {"changed": []}
        if what == "served":
            return {"others": []}
        if what == "key":
            return {"pem": self.made[name], "key": SECRET}
        if what == "issue":
            return {"certificate": self.made[name], "key": SECRET}
        if what in ("put-back", "kubelet-back"):
            back = self.before.pop((what, words[0] + name), None)
            if back:
                back()
            return {"changed": ["x"] if back else []}
        if what == "kubelet":
            _, renewal, pem, _ = words
            self._remember("kubelet-back", name, renewal)
            self.issued[name]["kubelet"] = pem
            return {"changed": ["kubelet-client-current.pem"]}
        pem = words[2] if words[2:] else self.made[name]
        self._remember("put-back", name, words[1])
        if self.signs[name] != pem:
            self.kept[name] = self.signs[name]
            self.trusts[name] = pem + self.kept[name]
        self.signs[name] = pem
        self.issued[name] |= {item: pem for item in self.issued[name] if item != "kubelet"}
        self.changed[name] = self.now()
        return {"changed": ["ca.crt", "apiserver.crt"]}

    def _remember(self, what: str, name: str, renewal: str) -> None:
        signs, trusts, changed = self.signs.get(name, ""), self.trusts[name], self.changed.get(name)
        issued = dict(self.issued[name])

        def back() -> None:
            self.issued[name] = issued
            if what == "put-back":
                self.signs[name], self.trusts[name] = signs, trusts
                self.changed.pop(name, None)
                self.changed |= {name: changed} if changed else {}

        self.before[what, renewal + name] = back

    def _stat(self, host: Host, _command: Sequence[str], _: bytes) -> CommandResult:
        at = self.changed.get(host.name, STARTED - timedelta(days=1))
        return CommandResult(0, f"{at.timestamp():.0f}\n", "")


class PublishingKube(RollingKube):
    """Its kube-controller-manager publishes what it trusts, when it starts."""

    def __init__(self, hosts: TrustingHosts) -> None:
        super().__init__(hosts.now)
        self.hosts = hosts
        self.publishes = True

    def patch(self, *arguments: Any, **named: Any) -> KubeObject:
        found = super().patch(*arguments, **named)
        status = {**found.get("status", {}), "observedGeneration": found["metadata"].get("generation")}
        if arguments[0] == WORKLOADS["DaemonSet"]:
            self.put(arguments[0], {**found, "status": status})
        if found["metadata"]["name"] == LEADERS[0]:
            self.publish()
        self.hosts.instant("after a patch")
        return found

    def publish(self) -> None:
        """Into each namespace; and kube-apiserver adds its own to those that aggregated APIs accept."""
        meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        pem = self.hosts.trusts[CONTROLLERS[0]]
        now = ((self.get(CONFIG_MAPS, meta["name"], "kube-system") or {}).get("data") or {}).get("client-ca-file", "")
        for each in certificates(pem):
            now = added(now, each)
        self.put(CONFIG_MAPS, {"metadata": meta, "data": {"client-ca-file": now}})
        for namespace in ("default", "kube-system") if self.publishes else ():
            meta = {"name": ROOT_CA, "namespace": namespace}
            self.put(CONFIG_MAPS, {"metadata": meta, "data": {"ca.crt": self.hosts.trusts[CONTROLLERS[0]]}})


@dataclass
class Place:
    """An adopted cluster of three controllers and a worker."""

    world: World
    kube: PublishingKube
    hosts: TrustingHosts
    folder: Path
    settings: Settings

    def phase(self, phase: Phase = Phase.TRUST) -> FinishedRun | None:
        """To its end; None where there is nothing to do."""
        said = list[str]()
        with found_cas(self.folder, FrontEnd(doing=said.append), phase) as found:
            assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
            found.check_allowed()
            for file, text in found.files.items():
                write_edited(file, text)
            said.clear()
            with found.propose(take_over=True) as proposed:
                assert said[0] == READS_FOLDER and said[-1] == "", (
                    "from the beginning, until there is something to show"
                )
                return proposed.execute() if proposed.changes else None

    def forget_runs(self) -> None:
        """Each command reads the journals of all runs; dozens of them say no more than one."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        for each in self.kube.list(SECRETS, "kube-system"):
            if (name := each["metadata"]["name"]).startswith("upgrader.run."):
                self.kube.delete(SECRETS, name, "kube-system")

    def operator(self, client: str, *trusted: str) -> None:
        """Give the operator a kubeconfig with a client's certificate, issued by the CA of this PEM."""
        issued = self.hosts.authorities[client].issue("kubernetes-admin", "system:masters")
        cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": encoded("".join(trusted))}
        user = {"client-certificate-data": encoded(issued), "client-key-data": encoded("x")}
        document = {
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "demo", "context": {"cluster": "it", "user": "it"}}],
        }
        self.settings.kubeconfig.write_text(yaml.safe_dump(document))

    def trusted(self) -> str:
        """To the stage in which both CAs are trusted, by the operator, too; the new CA, as PEM."""
        old = self.hosts.signs["controller-1"]
        self.phase()
        new = self.hosts.made["controller-1"]
        self.operator(old, old, new)
        self.world.clock.sleep(60)
        return new

    def signed(self) -> str:
        """To the stage in which the new CA signs, and the operator has a certificate of it; the new CA, as PEM."""
        new = self.trusted()
        finished = self.phase(Phase.SIGN)
        assert finished is not None and finished.error is None, finished and finished.error
        self.operator(new, new)
        self.world.clock.sleep(60)
        return new

    def all_is_new(self, new: str) -> bool:
        """Whether nothing is left of the old CA."""
        hosts = self.hosts
        return (
            set(self.authorities().values()) == {1}
            and set(hosts.trusts.values()) == set(hosts.signs.values()) == {new}
            and not hosts.made
            and not hosts.kept
            and not hosts.signing
            and not self.signing()
            and not any(self.marks().values())
        )

    def marks(self) -> dict[str, str]:
        """Workload → the new CA that its pods are marked with."""
        found = {}
        for kind, name in (*(("Deployment", name) for name in LEADERS), ("DaemonSet", "kube-proxy")):
            item = self.kube.get(WORKLOADS[kind], name, "kube-system") or {}  # type: ignore[index]
            annotations = item["spec"].get("template", {}).get("metadata", {}).get("annotations") or {}
            found[name] = annotations.get(TRUSTED_CA, "")
        return found

    def authorities(self) -> dict[str, int]:
        """How many CAs each place trusts."""
        text = (self.kube.get(CONFIG_MAPS, "cluster-info", "kube-public") or {})["data"]["kubeconfig"]
        data = base64.b64decode(text.rpartition(" ")[2]).decode()
        published = (self.kube.get(CONFIG_MAPS, ROOT_CA, "default") or {})["data"]["ca.crt"]
        accepted = self.kube.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system") or {}
        texts = {
            "clients": accepted["data"]["client-ca-file"],
            **self.hosts.trusts,
            "cluster-info": data,
            ROOT_CA: published,
        }
        return {name: len(certificates(text)) for name, text in texts.items()}

    def signing(self) -> str:
        """The file that the release has for the CA that signs."""
        values = json.loads(self.world.helm.manifest("kubernetes", "kube-system").split("\n---\n")[-1])["data"]
        return str((values.get("pki") or {}).get("signingCertificate", ""))

    def all_is_old(self) -> bool:
        """Whether nothing is left of a new CA."""
        return (
            set(self.authorities().values()) == {1}
            and not self.hosts.made
            and not self.signing()
            and not any(self.marks().values())
        )


def rendered(spec: ReleaseSpec, **_how: object) -> str:
    """Its workloads, and its values."""
    kinds = {**dict.fromkeys(LEADERS, "Deployment"), "kube-proxy": "DaemonSet"} if spec.name == "kubernetes" else {}
    documents: list[dict[str, Any]] = [
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {}} for name, kind in kinds.items()
    ]
    values = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": dict(spec.values)}
    return "\n---\n".join(map(json.dumps, [*documents, values]))


def flagged(kube: RollingKube, name: str, *flags: str) -> None:
    """Give a Deployment these flags beside its own."""
    found = dict(kube.get(WORKLOADS["Deployment"], name, "kube-system") or {})
    found["spec"]["template"]["spec"]["containers"][0]["command"] += flags
    kube.put(WORKLOADS["Deployment"], found)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Everything healthy, and one CA."""
    world = World(tmp_path / "journal.jsonl")
    hosts = TrustingHosts(world.clock.now)
    kube = PublishingKube(hosts)
    kube.raw_answers |= world.kube.raw_answers
    kube.silent_kubelets = set()
    for number, name in enumerate(NODES_, 1):
        add_node(kube, name)
        node = dict(kube.get(NODES, name) or {})
        status = {**node["status"], "addresses": [{"type": "InternalIP", "address": f"10.0.0.{number}"}]}
        kube.put(NODES, {**node, "status": {**status, "nodeInfo": {"kubeletVersion": str(FROM)}}})
        if name in CONTROLLERS:
            add_pod(kube, f"etcd-{name}", running(), node=name, priority_class="system-node-critical")
    add_control_plane(kube, *CONTROLLERS)
    add_daemonset(kube, "kube-proxy", desired=len(NODES_))
    proxy = dict(kube.get(WORKLOADS["DaemonSet"], "kube-proxy", "kube-system") or {})
    kube.put(WORKLOADS["DaemonSet"], {**proxy, "spec": {**proxy["spec"], "template": {"spec": {}}}})
    for name in NODES_:
        add_pod(kube, "kube-proxy", running(), node=name, daemon=True)
    for name in ("kube-apiserver", *LEADERS):
        found = dict(kube.get(WORKLOADS["Deployment"], name, "kube-system") or {})
        kube.put(
            WORKLOADS["Deployment"],
            {**found, "metadata": {**found["metadata"], "labels": {"app.kubernetes.io/version": str(FROM)}}},
        )
    flagged(kube, "kube-apiserver", f"--client-ca-file={PKI}/ca.crt")
    manager = [f"--{name}-file={PKI}/ca.crt" for name in ("root-ca", "client-ca", "cluster-signing-cert")]
    flagged(kube, LEADERS[0], *manager, f"--cluster-signing-key-file={PKI}/ca.key", "--cluster-signing-duration=1h")
    for namespace in ("default", "kube-system"):
        kube.put(NAMESPACES, {"metadata": {"name": namespace}})
    kube.publish()
    text = f"clusters:\n- cluster:\n    certificate-authority-data: {base64.b64encode(OLD.encode()).decode()}"
    meta = {"name": "cluster-info", "namespace": "kube-public"}
    kube.put(CONFIG_MAPS, {"metadata": meta, "data": {"kubeconfig": text}})
    monkeypatch.setattr(world.helm, "render", rendered)
    releases = []
    for name in BUILT_IN_CHARTS:
        world.helm.install(name, rendered(ReleaseSpec(name, "", Path(), {"a": "b"})))
        file = tmp_path / f"{name}.yaml"
        file.write_text("a: b\n")
        releases.append(ReleaseSettings(name, "kube-system", values_file=file))
    settings = Settings(
        tmp_path,
        FROM,
        tmp_path / "kubeconfig",
        tmp_path / "hosts.yml",
        tuple(releases),
        availability=AvailabilitySettings(0.0),
        gates=GatePolicy(consecutive=1, interval_seconds=15.0),
    )
    machines = tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(NODES_, 1))
    cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, machines[:-1], machines[-1:])
    tools = Tools(world.helm, kube, world.playbooks, world.clock, hosts)
    made = Place(world, kube, hosts, tmp_path, settings)

    @contextmanager
    def opened(_folder: Path, _target: KubernetesVersion | None = None) -> Iterator[Session]:
        read = [replace(item, values=yaml.safe_load(item.values_file.read_text())) for item in releases]  # type: ignore[union-attr]
        now = replace(made.settings, pipeline=tuple(read) if made.settings.pipeline else ())
        yield FakeSession(now, cluster, tools, kube, Fence(hosts, (), tools.clock))

    monkeypatch.setattr(ca_rotation, "open_session", opened)
    monkeypatch.setattr(ca_rotation, "_CHECKS", ())
    return made


def test_everything_trusts_both(place: Place) -> None:
    """Nodes, pods and kubeadm join; the signer has a file of its own before any file has two. A second time there is
    nothing to do.
    """
    finished = place.phase()
    assert finished is not None and finished.error is None, finished and finished.error
    assert finished.state.kind is RunKind.TRUST_NEW_CA
    assert [step.name for step in finished.state.steps] == [
        "new-ca",
        "signing-certificate",
        "kubernetes",
        "pods-before",
        "trust controller-1",
        "trust controller-2",
        "trust controller-3",
        "trust worker-1",
        "cluster-info",
        "roll-out leaders",
        "roll-out others",
    ]
    assert set(place.authorities().values()) == {2}
    new = fingerprint(place.hosts.made["controller-1"])
    assert set(place.marks().values()) == {new[:16]}
    assert place.signing() == SIGNING and place.hosts.signing == {*CONTROLLERS}
    shown = show_cas(place.folder)
    assert shown.trusted and (shown.signs, shown.new) == (fingerprint(OLD), new)
    assert place.phase() is None


def verifying(place: Place, flag: str = "kubelet-certificate-authority", file: str = f"{PKI}/ca.crt") -> None:
    flagged(place.kube, "kube-apiserver", f"--{flag}={file}")


def server_mark(place: Place) -> str:
    """The new CA that the pods of kube-apiserver are marked with."""
    found = place.kube.get(WORKLOADS["Deployment"], "kube-apiserver", "kube-system") or {}
    annotations = found["spec"]["template"].get("metadata", {}).get("annotations") or {}
    return str(annotations.get(TRUSTED_CA, ""))


def test_kube_apiserver_that_verifies_kubelets_reads_their_ca_again(place: Place) -> None:
    """Its pods are replaced once each node trusts both, before a kubelet may serve what the new CA has issued, and
    again when the old CA goes. Where that is left to do, the new CA doesn't sign.
    """
    verifying(place)
    finished = place.phase()
    assert finished is not None and finished.error is None, finished and finished.error
    names = [step.name for step in finished.state.steps]
    assert names.index("trust worker-1") < names.index("roll-out kube-apiserver") < names.index("roll-out leaders")
    new = place.hosts.made["controller-1"]
    assert server_mark(place) == fingerprint(new)[:16] and place.phase() is None

    place.operator(OLD, OLD, new)
    place.world.clock.sleep(60)
    template = {"metadata": {"annotations": {TRUSTED_CA: None}}}
    place.kube.patch(WORKLOADS["Deployment"], "kube-apiserver", {"spec": {"template": template}}, "kube-system")
    with pytest.raises(Blocked, match=r"still to do: roll-out kube-apiserver"):
        place.phase(Phase.SIGN)
    repeated = place.phase()
    assert repeated is not None and repeated.error is None, repeated and repeated.error
    assert "roll-out kube-apiserver" in [step.name for step in repeated.state.steps]

    place.world.clock.sleep(60)
    place.phase(Phase.SIGN)
    place.operator(new, new)
    place.world.clock.sleep(60)
    ended = place.phase(Phase.FINISH)
    assert ended is not None and ended.error is None, ended and ended.error
    names = [step.name for step in ended.state.steps]
    assert names.index("distrust worker-1") < names.index("roll-out kube-apiserver") < names.index("roll-out leaders")
    assert place.all_is_new(new) and not server_mark(place)


@pytest.mark.parametrize("flag", ["kubelet-certificate-authority", "oidc-ca-file"])
def test_kube_apiserver_that_verifies_others_and_the_way_back(place: Place, flag: str) -> None:
    """Its pods forget the new CA, too: where `trust` fails, and by `cancel`."""
    verifying(place, flag)
    place.kube.publishes = False
    finished = place.phase()
    assert finished is not None and finished.state.outcome == "rolled-back"
    assert "roll-out kube-apiserver" in [step.name for step in finished.state.steps]
    place.kube.publishes = True
    place.kube.publish()
    assert place.all_is_old() and not server_mark(place)
    place.world.clock.sleep(60)
    place.phase()
    assert server_mark(place)
    place.phase(Phase.CANCEL)
    assert place.all_is_old() and not server_mark(place)


def test_cancelled(place: Place) -> None:
    """Nothing is left of the new CA, neither in files nor in the cluster; then there is nothing to cancel."""
    place.phase()
    finished = place.phase(Phase.CANCEL)
    assert finished is not None and finished.error is None, finished and finished.error
    assert finished.state.kind is RunKind.CANCEL_NEW_CA
    assert place.all_is_old() and not place.hosts.signing
    with pytest.raises(Blocked, match="no CA rotation is in progress"):
        place.phase(Phase.CANCEL)


@pytest.mark.parametrize("address", ["10.0.0.2", "10.0.0.4"])
def test_node_that_does_not_accept_its_clients(place: Place, address: str) -> None:
    """A gate asks each kube-apiserver and each kubelet; where one goes on refusing, all is as it was."""
    place.hosts.never_accepts.add(address)
    finished = place.phase()
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert "client certificates from the new CA are not yet accepted everywhere" in finished.error.message
    assert finished.state.outcome == "rolled-back" and place.all_is_old()


def test_pods_that_are_never_told(place: Place) -> None:
    """kube-controller-manager's ConfigMaps are waited for, longer than for other things, and named."""
    place.kube.publishes = False
    begun = place.world.clock.monotonic()
    finished = place.phase()
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert f"{ROOT_CA} lacks the new CA in: default, kube-system" in finished.error.message
    assert place.world.clock.monotonic() - begun > 270
    assert finished.state.outcome == "rolled-back" and place.all_is_old()


def test_node_that_refuses(place: Place) -> None:
    """Its words are the reason; the nodes before it are as they were."""
    place.hosts.refuses[WORKER] = "the kubelet is not running as the systemd unit kubelet"
    finished = place.phase()
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert "the systemd unit kubelet" in finished.error.message
    assert finished.state.outcome == "rolled-back" and place.all_is_old()
    assert place.hosts.signing == {*CONTROLLERS}, "the folder's values name that file, and the next upgrade reads it"
    cancelled = place.phase(Phase.CANCEL)
    assert cancelled is not None and cancelled.error is None, cancelled and cancelled.error
    assert not place.hosts.signing and "signing-ca.crt" not in (place.folder / "kubernetes.yaml").read_text()


_MOMENTS = range(0, 60, STRIDE)
"""Until a phase is over before it."""


@pytest.mark.every_moment
@pytest.mark.parametrize("phase", [Phase.TRUST, Phase.CANCEL])
def test_killed_at_every_moment_and_run_again(place: Place, phase: Phase) -> None:
    """The next one ends as the first would have: what it finds in files and objects says what is left to do."""
    cancel = phase is Phase.CANCEL
    for at in _MOMENTS:
        place.forget_runs()
        if cancel:
            place.phase()
        place.world.clock.sleep(60)
        fate = Fate(at)
        place.hosts.instant = fate.instant
        try:
            place.phase(phase)
        except Killed:
            place.hosts.instant = lambda _: None
            place.world.clock.sleep(60)
            again = None if cancel and place.all_is_old() else place.phase(phase)
            assert again is None or again.error is None, (fate.where, again.error)
        place.hosts.instant = lambda _: None
        if cancel:
            assert place.all_is_old(), fate.where
        else:
            assert show_cas(place.folder).trusted and set(place.authorities().values()) == {2}, fate.where
            assert place.phase() is None, fate.where
            place.phase(Phase.CANCEL)
        if not fate.where:
            break
    assert not fate.where and fate.passed >= 8


def test_new_one_signs(place: Place) -> None:
    """One controller after the other, then who reads its kubeconfig at its start, then every kubelet; both CAs are
    trusted before and after. Keys are no arguments, and are sent only to who lacks them. Then there is nothing to do.
    """
    new = place.trusted()
    finished = place.phase(Phase.SIGN)
    assert finished is not None and finished.error is None, finished and finished.error
    assert finished.state.kind is RunKind.SIGN_WITH_NEW_CA
    assert [step.name for step in finished.state.steps] == [
        "leaders-before",
        "sign controller-1",
        "sign controller-2",
        "sign controller-3",
        "roll-out leaders",
        "kubelet controller-1",
        "kubelet controller-2",
        "kubelet controller-3",
        "kubelet worker-1",
    ]
    hosts = place.hosts
    assert set(hosts.signs.values()) == {new}
    assert all(pem == new for issued in hosts.issued.values() for pem in issued.values())
    assert [words[0] for words in hosts.told if words[1] == "key"] == ["controller-1"] * 2
    assert not any(SECRET in word for words in hosts.told for word in words)
    shown = show_cas(place.folder)
    assert (shown.stage, shown.signs) == (RotationStage.SIGNED, fingerprint(new))
    assert hosts.kept == dict.fromkeys(CONTROLLERS, OLD) and set(place.authorities().values()) == {2}
    assert place.phase(Phase.SIGN) is None


@pytest.mark.parametrize("node", ["controller-2", "worker-1"])
def test_signing_that_fails_is_undone(place: Place, node: str) -> None:
    """Every certificate is the one before, and the old CA signs; the same command then completes it."""
    place.trusted()
    place.hosts.refuses[node] = "kubeadm ended with 1: no"
    finished = place.phase(Phase.SIGN)
    assert finished is not None and isinstance(finished.error, StepFailed)
    assert finished.state.outcome == "rolled-back", finished.state
    hosts = place.hosts
    assert set(hosts.signs.values()) == {OLD}
    assert all(pem == OLD for issued in hosts.issued.values() for pem in issued.values())
    assert show_cas(place.folder).stage is RotationStage.TRUSTED
    hosts.refuses.clear()
    place.world.clock.sleep(60)
    again = place.phase(Phase.SIGN)
    assert again is not None and again.error is None, again and again.error
    assert show_cas(place.folder).stage is RotationStage.SIGNED


def test_finished(place: Place) -> None:
    """Nothing trusts the old CA any more, and nothing is left of it, nor of the rotation: the next one may begin."""
    new = place.signed()
    finished = place.phase(Phase.FINISH)
    assert finished is not None and finished.error is None, finished and finished.error
    assert finished.state.kind is RunKind.FINISH_NEW_CA
    assert [step.name for step in finished.state.steps] == [
        "cluster-info",
        "distrust controller-1",
        "distrust controller-2",
        "distrust controller-3",
        "distrust worker-1",
        "kubernetes",
        "roll-out leaders",
        "roll-out others",
        "aggregated-apis",
        "forget-old-ca",
    ]
    assert place.all_is_new(new)
    forgotten = [words[0] for words in place.hosts.told if words[1] == "forget"]
    assert forgotten == [WORKER, *CONTROLLERS], "workers keep a key of their kubelet's; controllers say what is left"
    shown = show_cas(place.folder)
    assert (shown.stage, shown.old, shown.new) == (RotationStage.NONE, fingerprint(new), "")
    with pytest.raises(Blocked, match="there is no new CA"):
        place.phase(Phase.FINISH)
    place.phase()
    assert show_cas(place.folder).stage is RotationStage.TRUSTED


def test_old_clients_that_are_still_accepted(place: Place) -> None:
    """A gate asks each kube-apiserver and each kubelet; the run stops there, and the same command completes it."""
    new = place.signed()
    place.hosts.still_accepts.add("10.0.0.2")
    finished = place.phase(Phase.FINISH)
    assert finished is not None and isinstance(finished.error, RollbackFailed)
    assert "controller-2: client certificates from the old CA are still accepted" in finished.error.message
    assert show_cas(place.folder).stage is RotationStage.FINISHING
    for phase in (Phase.TRUST, Phase.SIGN, Phase.CANCEL):
        with pytest.raises(Blocked) as caught:
            place.phase(phase)
        assert "rotate-ca finish" in caught.value.remedy
    place.hosts.still_accepts.clear()
    again = place.phase(Phase.FINISH)
    assert again is not None and again.error is None, again and again.error
    assert place.all_is_new(new)


@pytest.mark.every_moment
@pytest.mark.parametrize("phase", [Phase.SIGN, Phase.FINISH])
def test_later_phase_killed_at_every_moment_and_run_again(place: Place, phase: Phase) -> None:
    """The next one ends as the first would have, and never is a certificate in use that its acceptor doesn't trust."""
    for at in _MOMENTS:
        place.forget_runs()
        new = place.signed() if phase is Phase.FINISH else place.trusted()
        fate = Fate(at)
        place.hosts.instant = fate.instant
        with contextlib.suppress(Killed):
            place.phase(phase)
        place.hosts.instant = lambda _: None
        everywhere_accepted(place)
        place.world.clock.sleep(60)
        if fate.where and not (phase is Phase.FINISH and place.all_is_new(new)):
            again = place.phase(phase)
            assert again is None or again.error is None, (fate.where, again.error)
        if phase is Phase.SIGN:
            assert show_cas(place.folder).stage is RotationStage.SIGNED, fate.where
            assert place.phase(phase) is None, fate.where
            place.operator(new, new)
            place.phase(Phase.FINISH)
        assert place.all_is_new(new), fate.where
        if not fate.where:
            break
    assert not fate.where and fate.passed >= 7


def everywhere_accepted(place: Place) -> None:
    """Whatever is issued by a CA, every node trusts that CA."""
    used = {pem for issued in place.hosts.issued.values() for pem in issued.values()}
    for name, trusts in place.hosts.trusts.items():
        assert used <= set(certificates(trusts)), name


def test_stages_in_their_order(place: Place) -> None:
    """Each phase says what comes before it; what signs can't be cancelled."""
    for phase in (Phase.SIGN, Phase.FINISH):
        with pytest.raises(Blocked, match="there is no new CA") as caught:
            place.phase(phase)
        assert "rotate-ca trust" in caught.value.remedy
    place.phase()
    with pytest.raises(Blocked, match="another stage, trusted") as caught:
        place.phase(Phase.FINISH)
    assert "rotate-ca sign" in caught.value.remedy
    place.operator(OLD, OLD, place.hosts.made["controller-1"])
    place.world.clock.sleep(60)
    place.phase(Phase.SIGN)
    with pytest.raises(Blocked, match="already signs") as caught:
        place.phase(Phase.CANCEL)
    assert "rotate-ca finish" in caught.value.remedy


def kubelet_of_its_own(place: Place) -> None:
    del place.hosts.issued[WORKER]["kubelet"]


def shared_ca(place: Place) -> None:
    place.hosts.issued["controller-1"]["etcd-server"] = OLD


def own_certificate(place: Place) -> None:
    found = place.kube.get(WORKLOADS["Deployment"], "kube-apiserver", "kube-system") or {}
    command = found["spec"]["template"]["spec"]["containers"][0]["command"]
    command[:] = [each.replace("apiserver.crt", "mine.crt") for each in command]
    place.kube.put(WORKLOADS["Deployment"], found)


def operator_behind(place: Place) -> None:
    place.operator(OLD, OLD)


def no_kubeconfig(place: Place) -> None:
    place.settings.kubeconfig.write_text("[")


def untold(place: Place) -> None:
    place.hosts.trusts[WORKER] = OLD


def unpublished(place: Place) -> None:
    text = f"clusters:\n- cluster:\n    certificate-authority-data: {encoded(OLD)}"
    meta = {"name": "cluster-info", "namespace": "kube-public"}
    place.kube.put(CONFIG_MAPS, {"metadata": meta, "data": {"kubeconfig": text}})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (kubelet_of_its_own, "refer to the kubelet's certificate file.*worker-1"),
        (shared_ca, "certificates of etcd or the front proxy.*controller-1: etcd-server"),
        (own_certificate, "kube-apiserver serves /etc/kubernetes/pki/mine.crt"),
        (operator_behind, "your own kubeconfig.*doesn't trust the new CA"),
        (no_kubeconfig, "your own kubeconfig.*can't be read"),
        (untold, "another stage, trusting"),
        (unpublished, "not everything trusts the new CA.*cluster-info"),
    ],
)
def test_what_may_not_sign(place: Place, spoil: Callable[[Place], None], why: str) -> None:
    """Before anything changes."""
    place.trusted()
    spoil(place)
    with pytest.raises(Blocked, match=f"(?s){why}"):
        place.phase(Phase.SIGN)
    assert set(place.hosts.signs.values()) == {OLD} and not place.hosts.kept


def test_who_would_be_locked_out(place: Place) -> None:
    """The operator, and certificates that kubeadm doesn't know: the old CA stays until they have others."""
    new = place.signed()
    place.operator(OLD, OLD, new)
    with pytest.raises(Blocked, match="has a certificate that the old CA issued") as caught:
        place.phase(Phase.FINISH)
    assert "admin.conf" in caught.value.remedy
    place.operator(new, OLD, new)
    place.hosts.issued[WORKER][""] = OLD
    with pytest.raises(Blocked, match="kubeadm doesn't manage them"):
        place.phase(Phase.FINISH)
    assert set(place.authorities().values()) == {2}


def test_kubeconfig_that_kubeadm_wrote_meanwhile(place: Place) -> None:
    """It trusts the first CA alone; `trust` adds the new one again, and who reads it at its start is replaced."""
    place.phase()
    place.world.clock.sleep(60)
    place.hosts.trusts["controller-1"] = OLD
    assert not show_cas(place.folder).trusted
    finished = place.phase()
    assert finished is not None and finished.error is None, finished and finished.error
    assert show_cas(place.folder).trusted and place.phase() is None


def test_keeper_that_is_gone(place: Place) -> None:
    """The new CA is known from the files, and can be cancelled without its key, but no more."""
    place.phase()
    place.hosts.made.clear()
    assert show_cas(place.folder).keeper is None
    with pytest.raises(Blocked, match="no controller has the key of the new CA") as caught:
        place.phase()
    assert "rotate-ca cancel" in caught.value.remedy
    place.phase(Phase.CANCEL)
    assert place.all_is_old()


def strangers(place: Place) -> None:
    add_node(place.kube, "worker-2")


def gone(place: Place) -> None:
    del place.hosts.trusts["worker-1"]
    place.kube.delete(NODES, WORKER)


def external(place: Place) -> None:
    place.hosts.signs["controller-2"] = ""


def other_signer(place: Place) -> None:
    flagged(place.kube, LEADERS[0], f"--cluster-signing-kubelet-serving-cert-file={PKI}/x.crt")


def other_trust(place: Place) -> None:
    flagged(place.kube, "kube-apiserver", "--client-ca-file=/etc/x.crt")


def other_kubelets(place: Place) -> None:
    verifying(place, file="/etc/kubelets.crt")


def missing(place: Place) -> None:
    place.kube.delete(WORKLOADS["Deployment"], LEADERS[0], "kube-system")


def several(place: Place) -> None:
    place.hosts.trusts["worker-1"] += CertificateAuthority.named("x").pem + CertificateAuthority.named("y").pem


def unread(place: Place) -> None:
    meta = {"name": "kubeadm-config", "namespace": "kube-system"}
    place.kube.put(CONFIG_MAPS, {"metadata": meta, "data": {"ClusterConfiguration": "["}})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (strangers, "does not list these nodes.*: worker-2"),
        (gone, "workers that are not nodes of the cluster: worker-1"),
        (external, "controller-2 doesn't have the key"),
        (other_signer, "kube-controller-manager: --cluster-signing-kubelet-serving-cert-file"),
        (other_trust, "kube-apiserver: --client-ca-file=/etc/x.crt"),
        (other_kubelets, "kube-apiserver: --kubelet-certificate-authority=/etc/kubelets.crt"),
        (missing, "no Deployment kube-system/kube-controller-manager"),
        (several, "there are several others"),
        (unread, "kubeadm-config can't be read"),
    ],
)
def test_what_is_refused_by_name(place: Place, spoil: Callable[[Place], None], why: str) -> None:
    """Before anything changes."""
    spoil(place)
    with pytest.raises(Blocked, match=f"(?s){why}"):
        place.phase()
    assert not place.hosts.made and not place.hosts.changed and not place.signing()


def test_folder_without_the_release(place: Place) -> None:
    """The CA that signs is a value of it."""
    place.settings = replace(place.settings, pipeline=())
    with pytest.raises(UsageError, match="no release kubernetes"):
        place.phase()


def test_a_check_blocks_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that isn't healthy gets no new CA."""
    finding = Finding("nodes.not-ready", "error", "controller-2 is not Ready")
    monkeypatch.setattr(ca_rotation, "_CHECKS", (("nodes", lambda _: iter([finding])),))
    with pytest.raises(Blocked, match="a check blocks the rotation; nothing was changed") as refused:
        place.phase()
    assert "nodes.not-ready: controller-2 is not Ready" in refused.value.message, "it is what stays on the screen"
    assert not place.hosts.made


def test_controllers_that_differ_since_a_run_was_killed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of that doesn't keep `sign` from its end; before it began, it does."""
    new = place.trusted()
    finding = Finding("keys.differ", "error", "ca.crt is not the same on all controllers")
    monkeypatch.setattr(ca_rotation, "_CHECKS", (("keys", lambda _: iter([finding])),))
    with pytest.raises(Blocked, match="a check blocks the rotation"):
        place.phase(Phase.SIGN)
    place.hosts.signs["controller-1"], place.hosts.kept["controller-1"] = new, OLD
    assert show_cas(place.folder).stage is RotationStage.SIGNING
    finished = place.phase(Phase.SIGN)
    assert finished is not None and finished.error is None, finished and finished.error


def test_answer_that_can_not_be_understood(place: Place) -> None:
    """It is an error with the node's name."""
    place.hosts.commands["python3"] = CommandResult(0, '{"files": [{}]}', "")
    with pytest.raises(HostError, match="controller-1: the answer about its CAs can't be parsed"):
        show_cas(place.folder)


def test_shown_without_a_new_one(place: Place) -> None:
    """Every file trusts the CA that signs."""
    found: CaTrust = show_cas(place.folder)
    assert (found.signs, found.new) == (fingerprint(OLD), "") and len(found.nodes) == 4
