"""etcd's member, the pod of its tools, and the sum of its data."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.backup.read_etcd import summed
from upgrader.ports import CommandResult
from upgrader.steps.backup.etcd_member import ASIDE, MANIFEST, EtcdMember, initial_cluster, read_member
from upgrader.steps.backup.etcd_pod import ReplacedData, etcd_pod
from upgrader.steps.backup.etcd_tools import EtcdTools

HOST = Host("controller-1", "10.0.0.11")
YAML = """\
spec:
  containers:
  - image: registry.k8s.io/etcd:3.6.8-0
    command: [etcd, --name=controller-1, --data-dir=%s, --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379,
      --initial-advertise-peer-urls=https://10.0.0.11:2380, --initial-cluster=controller-1=https://10.0.0.11:2380]
"""
MEMBER = EtcdMember(
    HOST,
    "registry.k8s.io/etcd:3.6.8-0",
    "controller-1",
    "https://10.0.0.11:2380",
    "https://127.0.0.1:2379",
    "/var/lib/etcd",
    "",
    flags=("data-dir", "initial-advertise-peer-urls", "initial-cluster", "listen-client-urls", "name"),
)


@pytest.mark.parametrize("path", [MANIFEST, ASIDE])
def test_member_is_read_from_its_manifest(path: str) -> None:
    """Also while an interrupted restore keeps the manifest aside."""
    hosts = FakeHosts()
    hosts.files["controller-1", path] = (YAML % "/var/lib/etcd").encode()
    assert read_member(hosts, HOST) == MEMBER


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "not a static pod"),
        (b"spec: {}", "can't be parsed"),
        (b"\t:", "can't be parsed"),
        ((YAML % "/var/../etc").encode(), "data-dir"),
        ((YAML % "'/var/lib/$(reboot)'").encode(), "data-dir"),
    ],
)
def test_what_is_no_member_is_refused(content: bytes | None, why: str) -> None:
    """A manifest that is missing, is none, or names a folder that can't be one."""
    hosts = FakeHosts()
    if content is not None:
        hosts.files["controller-1", MANIFEST] = content
    with pytest.raises(HostError, match=why):
        read_member(hosts, HOST)


@pytest.mark.parametrize("everywhere", ["https://0.0.0.0:2379", "https://[::]:2379"])
def test_a_member_that_listens_everywhere_is_asked_at_one_address(everywhere: str) -> None:
    """No certificate is for 0.0.0.0."""
    hosts = FakeHosts()
    text = (YAML % "/var/lib/etcd").replace(
        "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379", f"'--listen-client-urls={everywhere}'"
    )
    hosts.files["controller-1", MANIFEST] = text.encode()
    assert read_member(hosts, HOST).client_url == "https://127.0.0.1:2379"


MOUNTED = """
    volumeMounts: [{mountPath: %s, name: data}, {mountPath: /etc/kubernetes/pki/etcd, name: certs}]
  volumes: [{name: data, hostPath: {path: %s}}, {name: certs, hostPath: {path: /etc/kubernetes/pki/etcd}}]
"""


@pytest.mark.parametrize(
    ("inside", "mount", "outside", "expected"),
    [
        ("/var/lib/etcd", "/var/lib/etcd", "/var/lib/etcd", "/var/lib/etcd"),
        ("/var/lib/etcd", "/var/lib/etcd/", "/mnt/fast/", "/mnt/fast"),
        ("/data/etcd/a", "/data", "/mnt", "/mnt/etcd/a"),
        ("/data", "/other", "/mnt", "/data"),
    ],
)
def test_data_is_where_the_host_has_it(inside: str, mount: str, outside: str, expected: str) -> None:
    """A flag names the container's path: what is made there on the host would be data that no etcd reads."""
    hosts = FakeHosts()
    hosts.files["controller-1", MANIFEST] = (YAML % inside + MOUNTED % (mount, outside)).encode()
    assert read_member(hosts, HOST).data_dir == expected


def test_data_in_no_folder_of_the_host_is_refused() -> None:
    """There is nothing to exchange."""
    hosts = FakeHosts()
    text = YAML % "/data" + MOUNTED % ("/data", "/mnt")
    hosts.files["controller-1", MANIFEST] = text.replace("hostPath: {path: /mnt}", "emptyDir: {}").encode()
    with pytest.raises(HostError, match="hostPath"):
        read_member(hosts, HOST)


def containers(**options: Any) -> dict[str, list[str]]:
    """The commands of the pod, by container, in their order."""
    pod = json.loads(etcd_pod(MEMBER, "upgrader-etcd-1", snapshot_bytes=1 << 20, **options))
    every = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    assert {item["image"] for item in every} == {MEMBER.image}
    return {item["name"]: item["command"] for item in every}


def test_a_backup_takes_the_snapshot_first() -> None:
    """Snapshot, its status, a restore, and a scratch etcd that nobody reaches over the network."""
    found = containers(take=True)
    assert list(found) == ["snapshot", "status", "scratch", "etcd"]
    assert "--endpoints=https://127.0.0.1:2379" in found["snapshot"]
    assert {word for word in found["etcd"] if word.startswith("--listen")} == {
        "--listen-client-urls=unix:///work/etcd.sock",
        "--listen-peer-urls=unix:///work/peer.sock",
    }
    assert "--unsafe-no-fsync" in found["etcd"], "each fsync would delay the member's own, on the same disk"


@pytest.mark.parametrize("size", [1 << 20, 8 << 30])
def test_the_pod_fits_beside_others(size: int) -> None:
    """A kubelet reserves what is requested, or the limits where nothing is; it refuses what doesn't fit."""
    pod = json.loads(etcd_pod(MEMBER, "upgrader-etcd-1", snapshot_bytes=size, take=True))
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "10m", "memory": "32Mi"}


def test_a_restore_makes_the_members_data_beside_the_scratch() -> None:
    """With the member's own name, all members, and a revision that no client has seen."""
    found = containers(take=False, replaced=ReplacedData("data", "a=https://1:2380,b=https://2:2380", 77))
    assert list(found) == ["status", "scratch", "data", "etcd"]
    words = " ".join(found["data"])
    assert "--name controller-1" in words
    assert "--initial-cluster a=https://1:2380,b=https://2:2380" in words
    assert "--bump-revision 77 --mark-compacted" in words
    assert "bump" not in " ".join(found["scratch"])


def test_all_members_are_named() -> None:
    """A member's own manifest names only those that were there when it joined."""
    assert initial_cluster([MEMBER, MEMBER]) == ",".join(["controller-1=https://10.0.0.11:2380"] * 2)


class Store:
    """etcd's answers to ranges, a few keys at a time."""

    def __init__(self, **keys: tuple[bytes, int]) -> None:
        self.keys = {f"/registry/{name}".encode(): value for name, value in sorted(keys.items())}
        self.revisions: list[int] = []

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """A page of two keys."""
        start = base64.b64decode(body["key"])
        found = [key for key in sorted(self.keys) if key >= start]
        self.revisions.append(body["revision"])
        entries = [
            {"key": text(key), "value": text(self.keys[key][0]), "lease": str(self.keys[key][1])} for key in found[:2]
        ]
        return {"header": {"revision": "42"}, "kvs": entries, "more": len(found) > 2}


def text(data: bytes) -> str:
    """As JSON has bytes."""
    return base64.b64encode(data).decode()


def test_every_key_is_counted_once_at_one_revision() -> None:
    """Pages overlap nowhere, and all are of the first one's revision."""
    store = Store(a=(b"1", 0), b=(b"2", 0), c=(b"3", 0), d=(b"4", 0), e=(b"5", 0))
    found = summed(store.ask)
    assert (found["keys"], found["revision"]) == (5, 42)
    assert store.revisions == [0, 42, 42]


def test_the_sum_tells_data_apart() -> None:
    """Another value, another key, or a border between both that lies elsewhere: another sum. A lease: none."""
    sums = {
        summed(Store(**keys).ask)["digest"]
        for keys in ({"a": (b"1", 0)}, {"a": (b"2", 0)}, {"b": (b"1", 0)}, {"a1": (b"", 0)}, {})
    }
    assert len(sums) == 5
    with_event = Store(a=(b"1", 0), event=(b"2", 77))
    assert summed(with_event.ask)["digest"] == summed(Store(a=(b"1", 0)).ask)["digest"]


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message."""
    return bytes([number << 3 | 2, len(content)]) + content


def test_the_cluster_is_known_by_its_data() -> None:
    """The UID of the namespace kube-system, as the API server stores it; an encrypted one is unknown."""
    metadata = field(1, b"kube-system") + field(5, b"uid-1")
    stored = b"k8s\x00" + field(1, b"type") + field(2, field(1, metadata))
    for value, expected in ((stored, "uid-1"), (b"k8s:enc:aescbc:v1:key", ""), (b"k8s\x00\xff", "")):
        assert summed(Store(**{"namespaces/kube-system": (value, 0)}).ask)["uid"] == expected


def test_the_keys_of_encrypted_values_are_named() -> None:
    """With their providers, each once; a value that only begins like one has none."""
    values = {
        "secrets/a": b"k8s:enc:aescbc:v1:key1:\x00:\xff",
        "secrets/b": b"k8s:enc:aescbc:v1:key1:\x01",
        "secrets/c": b"k8s:enc:kms:v2:vault:\x01",
        "secrets/d": b"k8s:enc:",
        "configmaps/e": b"k8s\x00enc:aesgcm:v1:key2:",
    }
    found = summed(Store(**{name: (value, 0) for name, value in values.items()}).ask)
    assert found["encrypted"] == ["aescbc key1", "kms vault"]


def tools(answers: dict[str, str], free: int = 1 << 40) -> tuple[EtcdTools, FakeHosts]:
    """A controller whose programs answer so, by their names."""
    hosts = FakeHosts()

    def python(host: Host, command: Any, stdin: bytes) -> CommandResult:
        program = stdin.decode().rsplit("upgrader.onhost.backup.", 1)[1].split()[0]
        return CommandResult(0, answers.get(program, "{}"), "")

    hosts.commands = {"python3": python, "sh": CommandResult(0, f"{free}\n", "")}
    return EtcdTools(hosts), hosts


@pytest.mark.parametrize(
    ("answer", "revision"),
    [('{"healthy": false, "revision": 9, "said": "no leader"}', 9), ('{"failed": "etcd does not run"}', 0)],
)
def test_the_revision_of_a_member_that_may_have_lost_its_data(answer: str, revision: int) -> None:
    """A restore is ahead of it if it is known, also without a quorum; one that doesn't answer stops no restore."""
    assert tools({"ask_member": answer})[0].reported_revision(MEMBER) == revision


NOTE = list[str]().append
STATUS = '{"hash": 7, "revision": 5, "totalKey": 9, "totalSize": 100, "version": "3.6.0"}'
READ = '{"keys": 3, "digest": "d", "revision": 5, "uid": "u"}'


def test_a_snapshot_is_proven_by_reading_it() -> None:
    """Its status is etcd's, its sum is the scratch etcd's, and no manifest stays when the work folder goes."""
    work, hosts = tools({"await_pod": json.dumps({"logs": {"status": f"warning\n{STATUS}"}}), "read_etcd": READ})
    with work.workspace(MEMBER, 100, NOTE) as used:
        status, data = work.prove(used, 100, take=True)
    assert (status.hash, status.revision, data.keys, data.digest) == (7, 5, 3, "d")
    assert hosts.ran[-1][1][-2:] == (used.work, "/var/lib/etcd/upgrader")


def test_what_stays_after_an_interruption_is_told() -> None:
    """The machine hangs, so that its copy of the data can't be removed: where it is, and what removes it."""
    work, hosts = tools({})
    notes, used = list[str](), list[str]()

    def interrupted() -> None:
        with work.workspace(MEMBER, 100, notes.append) as own:
            used.append(own.work)
            hosts.down.add(HOST.name)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (told,) = notes
    assert told.startswith(f"controller-1: {used[0]} may remain, with a copy of etcd's data: controller-1 ")
    assert "no answer" in told and told.endswith("The next backup, rehearsal or restore removes it")


def test_a_use_ends_only_what_has_its_name() -> None:
    """It begins without what any other has left. A restore may take over at any time after that, and makes the place
    anew: what is then in it is not removed by the one that ends.
    """
    work, hosts = tools({"await_pod": json.dumps({"logs": {"status": STATUS}}), "read_etcd": READ})
    with work.workspace(MEMBER, 100, NOTE) as used:
        work.prove(used, 100, take=True)
    ends = [command[3:] for _, command in hosts.ran if command[3:4] and command[3].startswith("upgrader-etcd-")]
    own = ("upgrader-etcd-" + used.use, "upgrader-rehearsal-" + used.use)
    assert ends[0] == ("upgrader-etcd-", "upgrader-rehearsal-", "/var/lib/etcd/upgrader", "")
    assert {words[:2] for words in ends[1:] if len(words) == 4} == {own} and used.use
    assert ends[-1] == (*own, f"/var/lib/etcd/upgrader/{used.use}", "/var/lib/etcd/upgrader")
    (pod,) = (json.loads(data) for data in hosts.files.values())
    assert pod["metadata"]["name"].startswith(own[0])
    assert {"hostPath": {"path": used.work, "type": "Directory"}, "name": "work"} in pod["spec"]["volumes"]
    with work.workspace(MEMBER, 100, NOTE) as other:
        assert other.use != used.use


def test_what_a_restore_works_with_is_not_removed() -> None:
    """It has stopped etcd, and its new data is in the place of all uses: nothing is cleaned there, nor begun."""
    work, hosts = tools({})
    hosts.files[HOST.name, ASIDE] = b"etcd's manifest"
    with pytest.raises(HostError, match="a restore has stopped etcd") as caught, work.workspace(MEMBER, 100, NOTE):
        pytest.fail("the restore has the place")
    assert "run it again" in caught.value.remedy and hosts.ran == []


def test_too_little_space_is_told_before_anything_is_done() -> None:
    """How much is free, how much is needed, and what to do."""
    work, hosts = tools({}, free=1000)
    words = "/var/lib/etcd has 0 MiB of free space, but 300 MiB are needed"
    with pytest.raises(HostError, match=words) as caught, work.workspace(MEMBER, 44 << 20, NOTE):
        pytest.fail("there is no space")
    assert "defrag" in caught.value.remedy
    assert not hosts.files


@pytest.mark.parametrize(
    ("answers", "why", "remedy"),
    [
        ({"await_pod": '{"failed": "exec: \\"etcdutl\\": not found"}'}, "etcdutl", "etcd 3.5 or later"),
        ({"await_pod": '{"logs": {"status": "nonsense"}}'}, "etcdutl reported no status", "again"),
        ({"await_pod": "Killed"}, "can't be parsed", ""),
        ({"await_pod": json.dumps({"logs": {"status": STATUS}}), "read_etcd": '{"failed": "no"}'}, "no", "kubelet"),
    ],
)
def test_a_tool_that_fails_leaves_nothing(answers: dict[str, str], why: str, remedy: str) -> None:
    """The error has the tool's words, and the work folder is removed."""
    work, hosts = tools(answers)
    with pytest.raises(HostError, match=why) as caught, work.workspace(MEMBER, 100, NOTE) as used:
        work.prove(used, 100, take=True)
    assert remedy in caught.value.remedy
    assert hosts.ran[-1][1][-1] == "/var/lib/etcd/upgrader"
