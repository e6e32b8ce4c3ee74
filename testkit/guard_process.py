"""guard as a process on this machine, beside an API server that is also a process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import urllib3

from testkit.ending import ENDS_WITH_US
from testkit.lab_cluster import until
from testkit.waiting import stretched

__all__ = ["GuardProcess", "guard_process"]

_START_SECONDS = 120.0


class _ClosedSocket(ssl.SSLSocket):
    """Is closed where its connection was reset before the TLS handshake, as by a guard that is killed: Python raises
    out of `SSLSocket._create` there, and leaves the socket open.
    """

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except ConnectionError:
            self.close()
            raise


class GuardProcess:
    """One replica, with ports of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def get(self, path: str) -> tuple[int, str]:
        """(status, text) of its HTTP port; status 0: no answer."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._started()['port']}{path}", retries=False)
        except (urllib3.exceptions.HTTPError, LookupError):
            return 0, ""
        return answer.status, answer.data.decode()

    def url(self, path: str) -> str:
        """The URL of a webhook."""
        return f"https://127.0.0.1:{self._started()['tls_port']}{path}"

    def post(self, path: str, body: Any) -> tuple[int, str]:
        """(status, text) of a webhook, without verifying its certificate; status 0: no answer, the text says why."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.sslsocket_class = _ClosedSocket
        port = self._started()["tls_port"]
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=stretched(30), context=context)
        try:
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def wait_ready(self) -> float:
        """Wait until /ready answers 200; returns how long that took. Raises TimeoutError, or RuntimeError with its
        output if it ended.
        """

        def ready() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"guard ended with {self._process.returncode}: {self._log.read_text()[-2000:]}")
            return self.get("/ready")[0] == 200

        return until("guard to be ready", ready, timeout_seconds=_START_SECONDS, interval_seconds=0.05)

    def kill(self) -> None:
        """Kill it at once, as the kernel does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> int:
        """Stop it as the kubelet does; returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=stretched(60))

    @property
    def pid(self) -> int:
        """Its process ID, to measure it."""
        return self._process.pid

    def _started(self) -> dict[str, Any]:
        for line in self.lines():
            if line["message"] == "started":
                return line
        raise LookupError("it hasn't started yet")


@contextmanager
def guard_process(
    folder: Path, kubeconfig: Path, *flags: str, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[GuardProcess]:
    """A replica in the namespace `ops`, which is killed at the end of the block if it is still running."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    command: Sequence[str] = [
        *ENDS_WITH_US,
        *(
            sys.executable,
            "-m",
            "upgrader.in_cluster.guard",
            "-server.port=0",
            "-server-tls.port=0",
            "-server-tls.enabled",
        ),
        "-roles=webhook",
        f"-kubernetes.config-file={kubeconfig}",
        "-server-tls.self-signed-cert.dns-name=127.0.0.1",
        *(flags if any("-kubernetes.namespace" in flag for flag in flags) else (*flags, "-kubernetes.namespace=ops")),
    ]
    environment = {**os.environ, "POD_NAMESPACE": "ops", **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    guard = GuardProcess(process, log)
    try:
        yield guard
    finally:
        if process.poll() is None:
            guard.kill()
