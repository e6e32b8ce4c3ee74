"""The originals, built from their repositories, and their own manifests."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3
import yaml

from bench.guard.programs import ADMISSION, AS_IT_IS, CROWDED, GENERATOR, PROTECTOR, ROLLER, Replica
from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent

__all__ = ["Certificate", "Originals", "Upstream", "certificate"]

_BUILD_SECONDS = 3000.0


@dataclass(frozen=True)
class Certificate:
    """Of 127.0.0.1, signed by itself (PEM files)."""

    certificate: Path
    key: Path

    def flags(self) -> tuple[str, ...]:
        """Of guard and rollout-operator, to use it instead of one of their own."""
        files = (f"-server-tls.cert-file={self.certificate}", f"-server-tls.key-file={self.key}")
        return ("-server-tls.self-signed-cert.enabled=false", "-webhooks.update-ca-bundle=false", *files)


def certificate(folder: Path) -> Certificate:
    """A new one."""
    made = Certificate(folder / "tls.crt", folder / "tls.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return made


@dataclass(frozen=True)
class Upstream:
    """Checkouts of the two repositories, and the folder of the programs that are built from them."""

    rollout_operator: Path
    podseidon: Path
    programs: Path


def _program(upstream: Upstream, name: str) -> Path:
    """One of them, built where it isn't there yet. Raises RuntimeError with Go's words.

    Podseidon's aggregator isn't among them: it needs a fork of client-go.
    """
    target = upstream.programs / name
    if target.exists():
        return target
    part = name.removeprefix("podseidon-")
    source = upstream.podseidon / part if part != name else upstream.rollout_operator / "cmd" / name
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    command = [str(go_command(Silent())), "build", "-buildvcs=false", "-o", str(target), "."]
    done = subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} can't be built in {source}: {done.stderr[-2000:]}")
    return target


class _Process:
    """One of them, with ports of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, tls_port: int, ready: str) -> None:
        self._process, self._port, self._tls_port, self._ready = process, port, tls_port, ready

    @property
    def pid(self) -> int:
        """See Replica."""
        return self._process.pid

    def url(self, path: str) -> str:
        """See Replica."""
        return f"https://127.0.0.1:{self._tls_port}{path}"

    def get(self, path: str) -> tuple[int, str]:
        """See Replica. `/ready` is whatever says so."""
        url = self._ready if path == "/ready" else f"http://127.0.0.1:{self._port}{path}"
        try:
            answer = urllib3.request("GET", url, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def kill(self) -> None:
        """See Replica."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class Originals:
    """Programs: rollout-operator answers `/admission/…` and rolls, podseidon the rest, but without its aggregator.

    Neither is held up by how often it may ask the API server, which both limit to 5 requests a second unless told
    otherwise.
    """

    upstream: Upstream
    tls: Certificate
    counts: bool = False
    dry_runs_are_free: bool = False

    @contextmanager
    def started(
        self, folder: Path, kubeconfig: Path, role: str, environment: Mapping[str, str] = AS_IT_IS
    ) -> Iterator[Replica]:
        """See Programs."""
        folder.mkdir(parents=True, exist_ok=True)
        if role in (ADMISSION, CROWDED, ROLLER):
            with self._rollout_operator(folder, kubeconfig, environment) as process:
                yield process
        else:
            with self._podseidon(folder, kubeconfig, role, environment) as process:
                yield process

    @contextmanager
    def _rollout_operator(self, folder: Path, kubeconfig: Path, environment: Mapping[str, str]) -> Iterator[Replica]:
        port, tls_port = _free_port(), _free_port()
        server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        command = [
            str(_program(self.upstream, "rollout-operator")),
            *("-kubernetes.namespace=shop", f"-kubernetes.api-url={server}", f"-kubernetes.config-file={kubeconfig}"),
            *(f"-server.port={port}", f"-server-tls.port={tls_port}", "-server-tls.enabled=true"),
            *("-kubernetes.client-qps=0", *self.tls.flags()),
        ]
        with _run(command, folder / "log", environment) as process:
            yield _Process(process, port, tls_port, f"http://127.0.0.1:{port}/ready")

    @contextmanager
    def _podseidon(
        self, folder: Path, kubeconfig: Path, role: str, environment: Mapping[str, str]
    ) -> Iterator[Replica]:
        port, tls_port, health = _free_port(), _free_port(), _free_port()
        name = "generator" if role == GENERATOR else "webhook"
        flags: Mapping[str, tuple[str, ...]] = {
            PROTECTOR: (
                *("--webhook-enable=false", "--webhook-https-enable=true", "--webhook-https-bind-addr=127.0.0.1"),
                *(f"--webhook-https-port={tls_port}", f"--webhook-https-cert-file={self.tls.certificate}"),
                *(f"--webhook-https-key-file={self.tls.key}", "--webhook-path-prefix=/protector"),
            ),
            GENERATOR: (
                "--deployment-plugin-protection-selector=podseidon.kubewharf.io/protect=true",
                "--generator-leader-elector-enable=false",
            ),
        }
        command = [
            str(_program(self.upstream, f"podseidon-{name}")),
            *(f"--core-kube-config={kubeconfig}", "--core-kube-qps=10000", "--core-kube-burst=10000"),
            *("--prometheus-http-bind-addr=127.0.0.1", f"--prometheus-http-port={port}", "--pprof-enable=false"),
            *("--healthz-bind-addr=127.0.0.1", f"--healthz-port={health}", *flags[role]),
        ]
        with _run(command, folder / "log", environment) as process:
            yield _Process(process, port, tls_port, f"http://127.0.0.1:{health}/readyz")


@contextmanager
def _run(command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    whole = {**os.environ, **environment}
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=whole)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
