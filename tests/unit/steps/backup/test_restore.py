"""A restore on controllers in memory: in which order, what is refused before anything stops, and what is compared."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyrage
import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.steps.backup.backups import archive, manifest
from tests.unit.steps.backup.test_etcd import HOST, STATUS, YAML
from upgrader.adapters.age import AgeFiles
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.errors import ApiUnavailable, BackupRefused, HostError, StepFailed, UpgraderError
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.cluster import Cluster, Host
from upgrader.model.gate_settings import GatePolicy
from upgrader.ports import CommandResult
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.pipeline import RecoverTools
from upgrader.steps.backup import restore
from upgrader.steps.backup.etcd_member import ASIDE, MANIFEST, read_member
from upgrader.steps.backup.restore import Restoration
from upgrader.steps.backup.verify import BackupFile

OTHER = Host("controller-2", "10.0.0.12")


class Site:
    """Two controllers whose programs answer as scripted, and a backup of them; `did` is what was done, in order."""

    def __init__(self, folder: Path) -> None:
        self.hosts, self.kube, self.clock = FakeHosts(), FakeKube(), FakeClock()
        self.did: list[str] = []
        self.notes: list[str] = []
        self.restored = {"keys": 308, "digest": "d1", "revision": 1959, "uid": "uid-1"}
        self.scratch: dict[str, object] = dict(self.restored)
        self.read_at: list[str] = []
        for host in (HOST, OTHER):
            self.hosts.files[host.name, MANIFEST] = (YAML % "/var/lib/etcd").encode()
        self.hosts.commands = {"python3": self._program, "sh": self._shell}
        self.path = folder / "backup.age"
        self.identity = pyrage.x25519.Identity.generate()
        self.write(archive())
        cluster = Cluster(folder, folder / "kubeconfig", "", folder / "hosts.yml", (HOST, OTHER))
        self.recovery = FakeRecovery(self.kube)
        tools = RecoverTools(
            hosts=self.hosts,
            helm=FakeHelm(),
            kube=self.kube,
            clock=self.clock,
            cluster=cluster,
            examine=lambda: Diagnosis(ApiSeen(True, "ok"), (), ()),
            recovery=self.recovery,
            gates=GateCatalog(self.kube, self.clock, cluster, GatePolicy()),
            helm_timeout_seconds=300.0,
        )
        backup = BackupFile(self.path, (str(self.identity),), AgeFiles())
        members = tuple(read_member(self.hosts, host) for host in (HOST, OTHER))
        self.restoration = Restoration(backup, manifest(), members, tools)
        self.steps = {item.step.name: item.step for item in self.restoration.pipeline().steps}

    def write(self, content: bytes) -> None:
        """The backup's file."""
        sealed = io.BytesIO()
        AgeFiles().encrypt(iter([content]), [str(self.identity.to_public())], sealed)
        self.path.write_bytes(sealed.getvalue())

    def apply(self, *names: str) -> None:
        """Steps, in this order."""
        for name in names:
            self.steps[name].apply(self.notes.append)

    def _program(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        name = stdin.decode().rsplit("upgrader.onhost.backup.", 1)[1].split()[0]
        self.did.append(f"{host.name} {name}")
        answer: object = {}
        if name == "await_pod":
            answer = {"logs": {"status": STATUS}}
        elif name == "read_etcd":
            self.read_at.append(command[4])
            answer = self.scratch if command[3] else self.restored
        return CommandResult(0, json.dumps(answer), "")

    def _shell(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        words = {
            "cat >": "send",
            "systemctl stop": "halt",
            "mv -T": "replace",
            "reset-failed kubelet || true\n": "start",
        }
        for text, name in words.items():
            if text in command[2]:
                self.did.append(f"{host.name} {name}")
        return CommandResult(0, "1000000000000\n", "")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two controllers and a backup."""
    return Site(tmp_path)


def test_nothing_stops_before_every_controller_has_the_data(site: Site) -> None:
    """Both have read it from a scratch etcd; then both stop; then both get the data; then both start."""
    site.apply("prepare", "stop", "replace", "start", "api", "pods", "nodes")
    kinds = [line.split()[1] for line in site.did]
    for earlier, later in (("await_pod", "halt"), ("stop_control_plane", "replace"), ("replace", "start")):
        last = max(at for at, kind in enumerate(kinds) if kind == earlier)
        assert last < kinds.index(later), site.did
    assert {line for line in site.did if "replace" in line} == {"controller-1 replace", "controller-2 replace"}
    assert site.recovery.calls == 1


ENCRYPTION = """
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets]
    providers:
      - aescbc: {keys: [{name: key2, secret: c2VjcmV0}]}
      - kms: {apiVersion: v2, name: vault, endpoint: unix:///x}
      - identity: {}
"""


def with_encryption(site: Site, *needed: str, told: str = "/etc/kubernetes/enc.yaml\n", elsewhere: str = "") -> None:
    """Both controllers have that configuration, and the backup has values of these keys."""
    site.scratch["encrypted"] = list(needed)
    shell = site.hosts.commands["sh"]
    assert callable(shell)

    def answer(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        found = "encryption-provider-config" in command[2]
        return CommandResult(0, told, elsewhere) if found else shell(host, command, stdin)

    site.hosts.commands["sh"] = answer
    for host in (HOST, OTHER):
        site.hosts.files[host.name, "/etc/kubernetes/enc.yaml"] = ENCRYPTION.encode()


def test_data_whose_encryption_key_is_gone_stops_nothing(site: Site) -> None:
    """The key was rotated after the backup: no kube-apiserver could read a Secret of it."""
    with_encryption(site, "aescbc key1", "aescbc key2", "kms vault")
    refused(site, HostError, r"encrypted with aescbc key1, which /etc/kubernetes/enc\.yaml doesn't have")


def test_data_whose_keys_are_all_there_is_restored(site: Site) -> None:
    """The configuration has them, with others."""
    with_encryption(site, "aescbc key2", "kms vault")
    site.apply("prepare")
    assert not [note for note in site.notes if "decrypt" in note]


def test_a_key_whose_name_has_a_colon_is_known(site: Site) -> None:
    """Kubernetes allows one, and the data doesn't show where such a name ends."""
    with_encryption(site, "aescbc prod", "kms vault")
    named = ENCRYPTION.replace("name: key2", 'name: "prod:2026"')
    for host in (HOST, OTHER):
        site.hosts.files[host.name, "/etc/kubernetes/enc.yaml"] = named.encode()
    site.apply("prepare")
    assert not [note for note in site.notes if "decrypt" in note]


@pytest.mark.parametrize(
    ("told", "elsewhere", "why"),
    [
        ("", "", "no encryption configuration was found"),
        ("", "/enc/config.yaml\n", "/enc/config.yaml can't be read"),
        ("/etc/kubernetes/gone.yaml\n", "", "/etc/kubernetes/gone.yaml can't be read"),
    ],
    ids=["new disks", "from a Secret", "removed meanwhile"],
)
def test_keys_that_are_unknown_are_noted(site: Site, told: str, elsewhere: str, why: str) -> None:
    """A restore may be what brings the configuration back: it isn't refused for what can't be known."""
    with_encryption(site, "aescbc key1", told=told, elsewhere=elsewhere)
    site.apply("prepare")
    noted = [note for note in site.notes if "unknown whether kube-apiserver can decrypt the data (aescbc key1)" in note]
    assert len(noted) == 2 and all(why in note for note in noted)


def test_nothing_stops_where_the_prepared_data_is_gone(site: Site) -> None:
    """A backup that began meanwhile has removed it on one controller: etcd runs on, on all."""
    site.apply("prepare")
    shell = site.hosts.commands["sh"]
    assert callable(shell)

    def gone(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if host == OTHER and "that was prepared is gone" in command[2]:
            return CommandResult(1, "", "the data that was prepared is gone; nothing was stopped")
        return shell(host, command, stdin)

    site.hosts.commands["sh"] = gone
    with pytest.raises(HostError, match="that was prepared is gone"):
        site.apply("stop")
    assert not any("halt" in line for line in site.did)


def test_what_a_restore_takes_over_is_removed_or_named(site: Site) -> None:
    """It is a copy of all Secrets, which no backup removes: where nothing has stopped yet, it goes; else it is named
    before anything stops, for an operator who gives the restore up.
    """
    site.apply("prepare", "stop")
    for host in (HOST, OTHER):
        (told,) = (note for note in site.notes if note.startswith(f"{host.name}: the restored data is in"))
        assert "/var/lib/etcd/upgrader-restore" in told and "If you abandon this restore, remove that folder" in told
    shell = site.hosts.commands["sh"]
    assert callable(shell)

    def gone(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if host == OTHER and "that was prepared is gone" in command[2]:
            return CommandResult(1, "", "the data that was prepared is gone; nothing was stopped")
        return shell(host, command, stdin)

    site.hosts.commands["sh"] = gone
    site.hosts.ran.clear()
    with pytest.raises(HostError, match="that was prepared is gone"):
        site.apply("stop")
    removed = [name for name, command in site.hosts.ran if command[-2:] == ("/var/lib/etcd", "upgrader-restore")]
    assert removed == [HOST.name, OTHER.name]


def test_what_was_restored_is_read_at_its_own_revision(site: Site) -> None:
    """API servers may have written more by then; that is not compared."""
    revision = site.restoration.revision
    site.clock.sleep(60)  # what was read is at the revision that was made
    site.apply("prepare", "start")
    assert site.read_at == ["0", "0", *[str(revision)] * 2]
    pods = [json.loads(data) for (_, path), data in site.hosts.files.items() if path.endswith(".json")]
    made = [
        words
        for pod in pods
        for item in pod["spec"]["initContainers"]
        if "--bump-revision" in (words := item["command"])
    ]
    bump = str(revision - manifest().revision)
    assert [words[words.index("--bump-revision") + 1] for words in made] == [bump] * 2


def test_backups_in_any_order_are_ahead_of_earlier_restores(site: Site) -> None:
    """A backup, then one that was taken of the restored cluster, then the first one again: each has a later revision
    than all that clients have seen, and what a busy cluster has written in between.
    """
    first, written = site.restoration, 3600 * 20_000
    seen = first.revision + written
    site.clock.sleep(3600)
    second = replace(first, manifest=replace(manifest(), revision=seen))
    assert second.revision > seen
    seen = second.revision + written
    site.clock.sleep(3600)
    assert first.revision > seen


def test_a_clock_that_is_behind_makes_no_earlier_revision(site: Site) -> None:
    """The machine of an earlier restore had its clock a year ahead: what a member reports counts, and what the backup
    has.
    """
    seen = site.restoration.revision + 365 * 86_400 * 100_000
    assert replace(site.restoration, seen_revision=seen).revision > seen
    assert replace(site.restoration, manifest=replace(manifest(), revision=seen)).revision > seen


def test_the_backups_lock_is_released(site: Site) -> None:
    """It is held by whoever took the backup, for ever: the Lease goes, when the API is back."""
    site.kube.put(LEASES, {"metadata": {"name": NAME}}, NAMESPACE)
    site.apply("api")
    assert site.kube.get(LEASES, NAME, NAMESPACE) is None


def test_an_api_that_has_just_come_back_may_fail_a_request(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All data is in place by then: a restore doesn't end for a connection that an API server ends at its start."""
    site.kube.put(LEASES, {"metadata": {"name": NAME}}, NAMESPACE)
    for method in ("delete", "list"):
        real, left = getattr(site.kube, method), iter([ApiUnavailable("connection reset"), ApiUnavailable("EOF")])

        def flaky(*words: Any, _real: Any = real, _left: Iterator[ApiUnavailable] = left, **more: Any) -> Any:
            for error in _left:
                raise error
            return _real(*words, **more)

        monkeypatch.setattr(site.kube, method, flaky)
    site.apply("api", "nodes")
    assert site.kube.get(LEASES, NAME, NAMESPACE) is None


def test_wait_for_the_kubelets_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take minutes, of which nothing else is said."""
    monkeypatch.setattr(restore, "unreported", lambda *_: "controller-1: its kubelet has not reported its pods")
    site.apply("pods")
    assert site.notes[0].startswith("waiting up to 240 s for the kubelets: controller-1: its kubelet has not")


def refused(site: Site, kind: type[UpgraderError], why: str) -> None:
    """Preparing fails for that reason; nothing is stopped, and both work folders are removed."""
    with pytest.raises(kind, match=why):
        site.apply("prepare")
    assert not [line for line in site.did if "halt" in line]
    removed = [line for line in site.did if "remove_leftovers" in line][-2:]
    assert removed == ["controller-1 remove_leftovers", "controller-2 remove_leftovers"]


@pytest.mark.parametrize("changed", [{"keys": 307}, {"digest": "other"}])
def test_other_data_than_the_backups_is_refused(site: Site, changed: dict[str, object]) -> None:
    """What the scratch etcd holds must be what it held when the backup was taken."""
    site.scratch |= changed
    refused(site, BackupRefused, "the restored snapshot has")


def test_a_damaged_file_is_refused(site: Site) -> None:
    """Also if it was damaged after it was shown."""
    content = bytearray(site.path.read_bytes())
    content[-1] ^= 1
    site.path.write_bytes(content)
    refused(site, BackupRefused, "damaged")


def test_another_backup_than_the_one_that_was_shown_is_refused(site: Site) -> None:
    """A file that was exchanged after the question isn't restored."""
    site.write(archive(replace(manifest(), keys=1)))
    refused(site, BackupRefused, "was replaced by another backup")


def test_etcd_with_other_data_fails(site: Site) -> None:
    """Numbers and hashes of both are in the message, and the API isn't waited for."""
    site.restored |= {"keys": 1}
    with pytest.raises(StepFailed, match=r"1 keys .* the backup has 308"):
        site.apply("start")


def test_an_interrupted_restore_finds_the_manifest_aside(site: Site) -> None:
    """etcd's manifest is where the interrupted restore put it; without any, the controller has no etcd."""
    site.hosts.files[HOST.name, ASIDE] = site.hosts.files.pop((HOST.name, MANIFEST))
    assert read_member(site.hosts, HOST).data_dir == "/var/lib/etcd"
    del site.hosts.files[HOST.name, ASIDE]
    with pytest.raises(HostError, match="not a static pod"):
        read_member(site.hosts, HOST)


def test_a_member_that_writes_ahead_elsewhere_is_refused(site: Site) -> None:
    """Only its data is exchanged: it would start with new data and the old log, after everything was stopped."""
    members = tuple(replace(member, wal_dir="/fast/wal") for member in site.restoration.members)
    with pytest.raises(HostError, match="/fast/wal"):
        replace(site.restoration, members=members).pipeline()


ETCD = """\
metadata:
  name: etcd
spec:
  containers:
  - name: etcd
    image: registry.k8s.io/etcd:%s-0
    command:
    - etcd
    - --name=%s
    - --initial-advertise-peer-urls=https://10.0.0.11:2380
    - --initial-cluster=controller-1=https://10.0.0.11:2380%s
"""


def upgraded(site: Site, runs: str, backup: str, more: str = "") -> Restoration:
    """The restoration of a backup of one etcd where another one runs by now."""
    for host in (HOST, OTHER):
        site.hosts.files[host.name, MANIFEST] = (ETCD % (runs, host.name, more)).encode()
    members = tuple(read_member(site.hosts, host) for host in (HOST, OTHER))
    of = replace(manifest(), etcd=f"registry.k8s.io/etcd:{backup}-0")
    site.write(archive(of))
    return replace(site.restoration, members=members, manifest=of)


def test_the_etcd_of_the_backup_comes_back_with_its_data(site: Site) -> None:
    """Its tools make the data, and the manifests get its image before etcd is started: no newer minor touches it."""
    restoration = upgraded(site, "3.6.14", "3.5.26")
    site.steps = {item.step.name: item.step for item in restoration.pipeline().steps}
    assert "etcd then runs the backup's image, registry.k8s.io/etcd:3.5.26-0" in site.steps["prepare"].summary()
    site.apply("prepare")
    pods = [json.loads(data) for (_, path), data in site.hosts.files.items() if path.endswith(".json")]
    assert {item["image"] for pod in pods for item in pod["spec"]["initContainers"]} == {
        "registry.k8s.io/etcd:3.5.26-0"
    }
    for host in (HOST, OTHER):
        site.hosts.files[host.name, ASIDE] = site.hosts.files.pop((host.name, MANIFEST))
    site.apply("start")
    for host in (HOST, OTHER):
        written = site.hosts.files[host.name, ASIDE].decode()
        assert written == ETCD % ("3.5.26", host.name, "")


def test_a_patch_of_etcd_stays(site: Site) -> None:
    """A newer patch of the same minor reads the data, and has more repaired."""
    assert upgraded(site, "3.6.14", "3.6.8").image == ""


def test_one_member_of_another_minor_is_enough(site: Site) -> None:
    """An upgrade of etcd was left in its middle: the newer one would take the older data to its own minor."""
    restoration = upgraded(site, "3.5.26", "3.5.26")
    site.hosts.files[OTHER.name, MANIFEST] = (ETCD % ("3.6.14", OTHER.name, "")).encode()
    members = (restoration.members[0], read_member(site.hosts, OTHER))
    assert replace(restoration, members=members).image == "registry.k8s.io/etcd:3.5.26-0"


def test_flags_that_the_backups_etcd_lacks_are_refused(site: Site) -> None:
    """kubeadm writes others since v1.34: etcd 3.5 would end at once, with nothing left that runs."""
    restoration = upgraded(site, "3.6.14", "3.5.26", "\n    - --feature-gates=InitialCorruptCheck=true")
    with pytest.raises(HostError, match=r"doesn't know --feature-gates .*nothing was changed"):
        restoration.pipeline()


def test_nodes_that_came_and_went_since_are_named(site: Site) -> None:
    """A kubelet makes its node only when it starts: it is restarted, where the inventory has it."""
    worker = Host("worker-1", "10.0.0.21")
    cluster = replace(site.restoration.tools.cluster, workers=(worker,))
    before = {HOST.name: "v1.37.1", OTHER.name: "v1.36.3", "worker-1": "v1.36.3", "worker-2": "v1.36.3"}
    restoration = replace(site.restoration, tools=replace(site.restoration.tools, cluster=cluster), nodes_before=before)
    for name in (HOST.name, OTHER.name, "worker-0"):
        site.kube.put(NODES, {"metadata": {"name": name}})
    site.steps = {item.step.name: item.step for item in restoration.pipeline().steps}
    site.apply("nodes")
    assert [host for host, command in site.hosts.ran if "systemctl restart kubelet" in command[2]] == ["worker-1"]
    said = "\n".join(site.notes)
    assert "node worker-2 joined after the backup: restart its kubelet" in said
    assert "kubectl delete node worker-0" in said
    assert f"the kubelets of {HOST.name} are newer than the restored API (v1.36.3)" in said
