"""Flags are read in one way, as pflag and Go's `flag` read them, wherever upgrader reads some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from upgrader.adopt.facts import flags_of
from upgrader.contract.flags import (
    Argument,
    arguments_in,
    command_line,
    is_true,
    last_values,
    manifest_flags,
    number,
    values,
)
from upgrader.gates.apiserver_instance import secure_port
from upgrader.in_cluster.checkpointer.observation import etcd_health
from upgrader.model.cluster import Host
from upgrader.model.emulation import emulated_by, minor_text
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.certificates.served import served
from upgrader.onhost.facts import etcd_facts
from upgrader.preflight.component_flags import component_flags
from upgrader.preflight.context import PreflightContext
from upgrader.steps.backup.etcd_member import MANIFEST, read_member
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import commands_of
from upgrader.steps.trial.harmless import SCRATCH, harmless

HOST = Host("controller-1", "10.0.0.1")
A, B = "A", "B"
CASES: Sequence[tuple[str, str | None]] = [
    ("--the-flag=B", B),
    ("--the-flag B", B),
    ("--the_flag=B", B),
    ("--the_flag B", B),
    ("--the-flag=A --the-flag=B", B),
    ("--the-flag=A --the_flag B", B),
    ("--bool --the-flag=B", B),
    ("--the-flag=B --bool", B),
    ("--bool --the-flag B", B),
    ("--below-zero -999 --the-flag=B", B),
    ("--to-stdout - --the-flag=B", B),
    ("-v2 --the-flag B", B),
    ("-v 2 --the-flag B", B),
    ("-v=2 --the-flag=B", B),
    ("--bool -v2 --the-flag=B", B),
    ("--empty= --the-flag=B", B),
    ("--the-flag=B -- --the-flag=A", B),
    ("--another=--the-flag=A", None),
    ("--the-flag-of-another=A", None),
    ("-- --the-flag=A", None),
    ("--bool", None),
    ("", None),
]
"""A command line, and the value of `--the-flag` on it."""


def container(name: str, words: Sequence[str]) -> dict[str, Any]:
    """One that starts a program of its name, with what a wrapper needs before it, and variables `FLAG` and `--FLAG`."""
    given = {flag: b for _, flag, _, b in READERS.values()} | {
        f"--{f}": f"--{f}={b}" for _, f, _, b in READERS.values()
    }
    env = [{"name": each, "value": value} for each, value in given.items()]
    command = ["tini", "--", f"/bin/{name}"]
    return {"name": name, "image": f"{name}:v1.37.1", "command": command, "args": [*words], "env": env}


def in_adoption(words: Sequence[str]) -> str | None:
    return flags_of(container("kube-apiserver", words)).get("tls-cert-file", (None,))[-1]


def of_a_running_pod(words: Sequence[str]) -> str | None:
    pod = {
        "metadata": {"name": "a", "namespace": "kube-system", "uid": "u"},
        "spec": {"containers": [container("kube-apiserver", words)]},
    }
    cluster = SimpleNamespace(controllers=(HOST,))
    context = cast(PreflightContext, SimpleNamespace(cluster=cluster, pods_on=lambda _: (pod,)))
    return (component_flags(context, "kube-apiserver") or {}).get("tls-cert-file")


def planned(words: Sequence[str]) -> str | None:
    release = cast(PlannedRelease, SimpleNamespace(name="kubernetes"))
    spec = {"containers": [{"name": "kube-proxy", "command": ["/bin/kube-proxy", *words]}]}
    item = {"kind": "DaemonSet", "spec": {"template": {"spec": spec}}}
    (command,) = commands_of(release, "DaemonSet kube-system/kube-proxy", item, KubernetesVersion(1, 37, 1))
    return command.value("tls-cert-file")


def left_by_a_trial(words: Sequence[str]) -> str | None:
    changed = harmless("kube-apiserver", words)
    flags = changed[: changed.index("--")] if "--" in changed else changed
    assert not {"/a", "/b", "--audit-log-path=/a", "--audit-log-path=/b"} & {*flags}, changed
    return "/b" if f"--audit-log-path={SCRATCH}/audit.log" in changed else None


def of_etcds_member(words: Sequence[str]) -> str | None:
    hosts = FakeHosts()
    given = ["--initial-advertise-peer-urls=https://10.0.0.1:2380", *words]
    hosts.files[HOST.name, MANIFEST] = yaml.safe_dump({"spec": {"containers": [container("etcd", given)]}}).encode()
    return read_member(hosts, HOST).wal_dir or None


def port(words: Sequence[str]) -> str | None:
    found = secure_port({"containers": [container("kube-apiserver", words)]})
    return None if found == 6443 else str(found)


def emulated(words: Sequence[str]) -> str | None:
    found = emulated_by(words)
    return minor_text(found) if found else None


def asked_by_the_checkpointer(words: Sequence[str]) -> str | None:
    asked: list[str] = []

    def healthy(host: str, port: int, *_: object) -> bool:
        asked.append(f"https://{host}:{port}")
        return True

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(etcd_health, "_healthy", healthy)
        etcd_health.is_away({"spec": {"containers": [container("kube-apiserver", words)]}}, 1.0)
    return asked[0] if asked else None


def kubeadms(words: Sequence[str]) -> str:
    """A manifest of etcd with these flags, as kubeadm writes it."""
    given = ["etcd", "--cert-file=/gone.crt", "--key-file=/gone.key", *words]
    return yaml.safe_dump({"spec": {"containers": [{"command": given, "image": "etcd", "name": "etcd"}]}})


def asked_on_a_host(words: Sequence[str], folder: Path) -> str | None:
    (folder / "etcd.yaml").write_text(kubeadms(words))
    lines = served("127.0.0.1", "1", "/gone.crt", str(folder / "etcd.yaml"))["others"]
    found = [line.partition(" at ")[2].partition(": ")[0] for line in lines if line.startswith("etcd at ")]
    return f"https://{found[0]}" if found else None


def examined(words: Sequence[str], folder: Path) -> str | None:
    manifests = folder / "etc/kubernetes/manifests"
    manifests.mkdir(parents=True)
    (manifests / "etcd.yaml").write_text(kubeadms(words))
    return cast(str | None, etcd_facts.facts(str(folder))["flags"].get("initial-cluster"))


Reader = Callable[[Sequence[str]], str | None]
READERS: Mapping[str, tuple[Callable[..., str | None], str, str, str]] = {
    "adopt": (in_adoption, "tls-cert-file", "/a", "/b"),
    "preflight": (of_a_running_pod, "tls-cert-file", "/a", "/b"),
    "planned commands": (planned, "tls-cert-file", "/a", "/b"),
    "trial": (left_by_a_trial, "audit-log-path", "/a", "/b"),
    "backup": (of_etcds_member, "wal-dir", "/a", "/b"),
    "gates": (port, "secure-port", "1", "2"),
    "emulation": (emulated, "emulated-version", "1.35", "1.36"),
    "pod-checkpointer": (asked_by_the_checkpointer, "etcd-servers", "https://a:2379", "https://b:2379"),
    "served certificates": (asked_on_a_host, "listen-client-urls", "https://a:2379", "https://b:2379"),
    "examination": (examined, "initial-cluster", "a=https://a:2380", "b=https://b:2380"),
}
"""Who reads flags: by what, the flag that is read, and two values of it."""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("words", "expected"), CASES)
def test_whoever_reads_flags_reads_them_alike(
    reader: str, words: str, expected: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The table of cases holds for each of them, through what it is called by."""
    read, flag, a, b = READERS[reader]
    given = [
        word.replace("the-flag", flag).replace("the_flag", flag.replace("-", "_")).replace(A, a).replace(B, b)
        for word in words.split()
    ]
    more = (tmp_path,) if read in (asked_on_a_host, examined) else ()
    assert read(given, *more) == {B: b, None: None}[expected]


@pytest.mark.parametrize("reader", ["adopt", "preflight", "gates", "backup", "pod-checkpointer"])
@pytest.mark.parametrize("word", ["--the-flag=$(the-flag)", "$(--the-flag)"])
def test_a_running_programs_flags_are_those_that_it_sees(reader: str, word: str) -> None:
    """The kubelet replaces the container's variables in its command line: in a value, or a whole word."""
    read, flag, _, b = READERS[reader]
    assert read([word.replace("the-flag", flag)]) == b


def test_arguments_in_all_their_forms() -> None:
    """With their words, so that they can be left out; what has no flag's name is none."""
    given = ["kube-x", "--a=1=2", "--b", "2", "--c", "--d_e=f", "-v", "--f", "-999", "-v2", "-x=1", "--g", "", "--=1"]
    assert list(arguments_in([*given, "--$(NAME)=1", "---", "--h", "--", "--i"])) == [
        Argument(("kube-x",)),
        Argument(("--a=1=2",), "a", "1=2"),
        Argument(("--b", "2"), "b", "2"),
        Argument(("--c",), "c"),
        Argument(("--d_e=f",), "d-e", "f"),
        Argument(("-v",), "v"),
        Argument(("--f", "-999"), "f", "-999"),
        Argument(("-v2",), "v", "2"),
        Argument(("-x=1",), "x", "1"),
        Argument(("--g", ""), "g", ""),
        Argument(("--=1",)),
        Argument(("--$(NAME)=1",)),
        Argument(("---",)),
        Argument(("--h",), "h"),
        Argument(("--",)),
        Argument(("--i",)),
    ]


def test_values_are_kept_in_their_order() -> None:
    """All of a list, the last one of anything else; no value is `true`, and an empty one stays empty."""
    words = ["--a=1", "--b", "--a", "2", "--c=", "-a3", "--d", "$(D)"]
    assert values(words) == {"a": ("1", "2"), "b": ("true",), "c": ("",), "d": ("$(D)",)}
    assert last_values(words) == {"a": "2", "b": "true", "c": "", "d": "$(D)"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"command": ["/usr/bin/x", "--a"], "args": ["--b"]}, ("/usr/bin/x", "--a", "--b")),
        ({"command": ["sh", "-c", 'exec "$0" "$@"', "x"], "args": ["--b"]}, ("x", "--b")),
        ({"command": ["sh", "-c", "exec y --a"], "args": ["--b"]}, ("sh", "-c", "exec y --a", "--b")),
        ({"args": ["--b", "x"]}, ("--b", "x")),
        ({"command": None, "args": [1, "--b"]}, ("--b",)),
        ({"command": "x --a"}, ()),
    ],
)
def test_command_line_of_a_container(found: dict[str, Any], words: tuple[str, ...]) -> None:
    """From its own program on, whatever starts that; what the API would refuse is no word."""
    assert command_line({"name": "x", **found}) == words


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("command:\n- etcd\n- --a=1\n# why\n- '--b=2'\n- --c  # why\n", {"a": "1", "b": "2", "c": "true"}),
        ("command:\n- --a\nimage: x\nports:\n- y\n", {"a": "true"}),
        ('args:\n  - "--a"\n  - "1 2"\n\n  - --b=x#y\n', {"a": "1 2", "b": "x#y"}),
        ('{"spec": {"containers": [{"name": "x", "command": ["x", "--a=1"]}]}}', {"a": "1"}),
        ('{"spec": {"containers": ["x"]}}', {}),
        ("[]", {}),
        ('{"spec": []}', {}),
        ("", {}),
    ],
)
def test_manifest_without_a_reader_of_yaml(text: str, flags: dict[str, str]) -> None:
    """On a host there is none; a flag at the end of its list doesn't take a word of the next one."""
    assert manifest_flags(text) == flags


def test_a_switch_is_read_as_go_reads_it() -> None:
    """Go's strconv.ParseBool accepts six spellings of true, and no other word."""
    assert all(map(is_true, ("1", "t", "T", "true", "True", "TRUE")))
    assert not any(map(is_true, ("0", "f", "F", "false", "False", "FALSE", "", "yes", "tRUE")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("6443", 6443),
        ("0x1A0B", 0x1A0B),
        ("0X_1a0b", 0x1A0B),
        ("0o6443", 0o6443),
        ("06443", 0o6443),
        ("0_6443", 0o6443),
        ("0b1100_1001", 0b1100_1001),
        ("6_443", 6443),
        ("+6443", 6443),
        ("-1", -1),
        ("0", 0),
        ("", None),
        (" 6443", None),
        ("6443.0", None),
        ("08", None),
        ("6__443", None),
        ("_6443", None),
        ("6443_", None),
        ("\u0666\u0664\u0664\u0663", None),
        ("https", None),
    ],
)
def test_a_number_is_read_as_go_reads_it(text: str, wanted: int | None) -> None:
    """pflag gives it to strconv.ParseInt with base 0: the base is in the text, and a leading zero makes it octal."""
    assert number(text) == wanted
