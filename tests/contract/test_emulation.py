"""Real API servers of two minors, one after the other on one etcd: what the emulation promises, and what it keeps."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from testkit.every_kind import digests, stored_kinds, write_every_kind
from testkit.lab_cluster import OLD, TARGET, until
from upgrader.adapters.kube import KubeAdapter
from upgrader.gates.continuity.served_groups import read_groups
from upgrader.lab.binaries import Binaries, kubernetes
from upgrader.lab.progress_port import Silent
from upgrader.model.emulation import ServerVersion

_TOKEN = "test-admin"
EMULATE = "--emulated-version=1.36"


class Servers:
    """An etcd, and API servers that take turns on it."""

    def __init__(self, folder: Path, etcd: str) -> None:
        self._folder, self._etcd = folder, etcd
        key = folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        (folder / "tokens.csv").write_text(f"{_TOKEN},admin,1,system:masters\n")

    @contextmanager
    def serving(self, version: str, *flags: str) -> Iterator[KubeAdapter]:
        """The API of this version, until the end of the block."""
        place = self._folder / f"{version}{''.join(flags)}".replace("=", "")
        place.mkdir(exist_ok=True)
        program = place / "kube-apiserver"
        if not program.exists():
            program.symlink_to(kubernetes(version, Silent()) / "kubernetes")
        port, key = _free_port(), self._folder / "sa.key"
        command = [
            str(program),
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={place}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://issuer.example",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            *flags,
        ]
        with (place / "log").open("w") as log, _process(command, log.fileno()):
            kube = KubeAdapter(self._kubeconfig(place, port))
            try:
                until(f"kube-apiserver {version}", lambda: kube.raw("/readyz") == "ok", timeout_seconds=90)
                yield kube
            finally:
                kube.close()

    def _kubeconfig(self, place: Path, port: int) -> Path:
        certificate = place / "apiserver.crt"
        while not certificate.exists():
            time.sleep(0.1)
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        path = place / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """With an empty etcd."""
    folder = tmp_path_factory.mktemp("emulation")
    client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
    command = [str(Binaries(Silent()).etcd() / "etcd"), f"--data-dir={folder / 'etcd'}"]
    command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    with (folder / "etcd.log").open("w") as log, _process(command, log.fileno()):
        yield Servers(folder, client)


@dataclass(frozen=True)
class Turn:
    """What one server reported and served, and how it read the objects that were there at first, and at last."""

    version: ServerVersion
    groups: tuple[str, ...]
    at_first: Mapping[str, str]
    at_last: Mapping[str, str]
    written: int
    """How many objects it was given."""


@pytest.fixture(scope="module")
def turns(servers: Servers) -> Mapping[str, Turn]:
    """The old server, the new one that emulates it, the old one again, and the new one as itself."""
    done: dict[str, Turn] = {}
    for name, version, flags, writes in (
        ("old", OLD, (), "before"),
        ("emulates", TARGET, (EMULATE,), "meanwhile"),
        ("old again", OLD, (), ""),
        ("new", TARGET, (), ""),
    ):
        with servers.serving(version, *flags) as kube:
            found = digests(kube, "before", "meanwhile")
            written = write_every_kind(kube, writes) if writes else 0
            assert written in (0, len(stored_kinds(kube))), "there is an object of every kind"
            told, groups = ServerVersion.parse(kube.raw("/version")), read_groups(kube)
            own = tuple(group for group in groups if ".example/" not in group)
            done[name] = Turn(told, own, found, digests(kube, "before", "meanwhile"), written)
    return done


def test_emulating_server_is_the_old_one_to_its_clients(turns: Mapping[str, Turn]) -> None:
    """It serves the same groups, and reports the same emulation and compatibility; without it, neither is the same."""
    old, emulates, new = (turns[name] for name in ("old", "emulates", "new"))
    assert [str(turn.version.binary) for turn in (old, emulates)] == [OLD, TARGET]
    assert (old.version.emulated, old.version.compatible) == ((1, 36), (1, 35))
    assert (emulates.version.emulated, emulates.version.compatible) == ((1, 36), (1, 35))
    assert (new.version.emulated, new.version.compatible) == ((1, 37), (1, 36))
    assert old.groups == emulates.groups != new.groups


def test_old_server_reads_every_kind_that_the_emulating_one_wrote(turns: Mapping[str, Turn]) -> None:
    """Field by field, and those that it wrote before; the new minor itself lacks none, and gives some new defaults."""
    old, emulates, again, new = turns.values()
    assert len(emulates.at_last) == old.written + emulates.written > 100
    assert emulates.at_first == old.at_last
    assert again.at_first == emulates.at_last
    assert new.at_first.keys() == emulates.at_last.keys()
    assert new.at_first != emulates.at_last


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _process(command: list[str], log: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
