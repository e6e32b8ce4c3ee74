"""Real API servers as bare processes with an etcd: no controllers, no nodes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from testkit.ending import ENDS_WITH_US
from testkit.lab_cluster import until
from testkit.ports import free_port
from testkit.waiting import stretched
from upgrader.adapters.kube import KubeAdapter
from upgrader.lab.binaries import Binaries, kubernetes
from upgrader.lab.progress_port import Silent

__all__ = ["ApiServers", "api_servers"]

_TOKEN = "test-admin"
_END_SECONDS = 100.0
"""kube-apiserver ends once the requests that it has begun have, each of which may take its `--request-timeout`: 60 s.
"""


@contextmanager
def api_servers(folder: Path, *users: str) -> Iterator[ApiServers]:
    """With an empty etcd, which ends with the block. `users` can log in besides the administrator."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [str(Binaries(Silent()).etcd() / "etcd"), f"--data-dir={folder / 'etcd'}"]
    command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    with (folder / "etcd.log").open("w") as log, _process(command, log.fileno()) as etcd:
        yield ApiServers(folder, client, etcd, users)


class ApiServers:
    """An etcd, and API servers that use it one after the other."""

    def __init__(self, folder: Path, etcd: str, process: subprocess.Popen[bytes], users: Sequence[str] = ()) -> None:
        self._folder, self.etcd_url, self.etcd = folder, etcd, process
        self.port = 0
        """The URL of the newest one."""
        key = folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        tokens = [f"{_TOKEN},admin,1,system:masters", *(f"{_token(user)},{user},{user}" for user in users)]
        (folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
        self._place = self._address = ""

    @contextmanager
    def serving(self, version: str, *flags: str, address: str = "127.0.0.1") -> Iterator[KubeAdapter]:
        """The API of this version at an address of this machine, until the end of the block."""
        place = self._folder / f"{version}{''.join(flags)}".replace("=", "").replace("/", "-")
        place.mkdir(exist_ok=True)
        program = place / "kube-apiserver"
        if not program.exists():
            program.symlink_to(kubernetes(version, Silent()) / "kubernetes")
        self.port, key = free_port(), self._folder / "sa.key"
        command = [
            str(program),
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={address}",
            f"--secure-port={self.port}",
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
        with (place / "log").open("w") as log, _process(command, log.fileno()) as server:
            self._place, self._address = str(place), address
            kube = KubeAdapter(self.kubeconfig())
            try:
                until(f"kube-apiserver {version}", lambda: _ready(kube, server, place / "log"), timeout_seconds=90)
                yield kube
            finally:
                kube.close()

    def kubeconfig(self, user: str = "") -> Path:
        """The client for the newest server, as one of the `users`, or as the administrator."""
        place = Path(self._place)
        certificate = place / "apiserver.crt"
        while not certificate.exists():
            time.sleep(0.1)
        cluster = {"server": f"https://{self._address}:{self.port}", "certificate-authority": str(certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": {"token": _token(user) if user else _TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "current-context": "x",
        }
        path = place / f"kubeconfig{'-' if user else ''}{user.rpartition(':')[2]}"
        path.write_text(yaml.safe_dump(config))
        return path


def _token(user: str) -> str:
    return f"test-{user.replace(':', '-')}"


def _ready(kube: KubeAdapter, server: subprocess.Popen[bytes], log: Path) -> bool:
    """Raises AssertionError with its last output if it has ended, as it won't become ready."""
    assert server.poll() is None, f"kube-apiserver ended with {server.returncode}: {log.read_text()[-2000:]}"
    return kube.raw("/readyz") == "ok"


@contextmanager
def _process(command: list[str], log: int) -> Iterator[subprocess.Popen[bytes]]:
    # A fifth of what a kube-apiserver's start costs is garbage collection, at Go's default of 100.
    process = subprocess.Popen([*ENDS_WITH_US, *command], stdout=log, stderr=log, env={**os.environ, "GOGC": "400"})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=stretched(_END_SECONDS))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
