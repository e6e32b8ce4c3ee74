"""Clients that each keep one HTTP/2 connection, as client-go does, and count the effects of a rollout.

They are a Go program (`kept_http2/`), because client-go uses Go's own transport, which decides what to repeat after a
GOAWAY.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent

__all__ = ["HTTP2Lane", "HTTP2Seen", "KeptHTTP2"]

_SOURCE = Path(__file__).with_name("kept_http2")
_BUILD_SECONDS = 900.0


@dataclass(frozen=True)
class HTTP2Lane:
    """This many clients that write once a period, to a `configmap` or a `lease` each, with watches beside that."""

    name: str
    kind: str
    period_seconds: float
    connections: int
    watches: int = 0


@dataclass(frozen=True)
class HTTP2Seen:
    """What the clients of one lane saw. All counts are of single answers.

    `answered`: 2xx. `told`: 429 with Retry-After, which is waited for, to writes and watches. `failed`: everything
    else. `longest_pause_ms`: the longest time from the moment at which a write was due to its 2xx. A watch ends by the
    server's word, or breaks off.
    """

    name: str
    connections: int
    period_seconds: float
    answered: int
    told: int
    failed: int
    longest_pause_ms: float
    watches_ended: int
    watches_broken_off: int
    failures: tuple[str, ...]


class KeptHTTP2:
    """Clients that work until `stop`; the kubeconfig has a client certificate."""

    def __init__(self, kubeconfig: Path, lanes: Iterable[HTTP2Lane]) -> None:
        self._config = yaml.safe_load(kubeconfig.read_text())
        self._lanes = json.dumps([asdict(lane) for lane in lanes])
        self._process: subprocess.Popen[str] | None = None
        self._files = tempfile.TemporaryDirectory()

    def __enter__(self) -> Self:
        cluster, user = self._config["clusters"][0]["cluster"], self._config["users"][0]["user"]
        texts = (cluster["certificate-authority-data"], user["client-certificate-data"], user["client-key-data"])
        command = [str(_program()), cluster["server"]]
        for number, text in enumerate(texts):
            file = Path(self._files.name, str(number))
            file.write_bytes(base64.b64decode(text))
            command.append(str(file))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._say(self._lanes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._files.cleanup()

    def seen(self) -> tuple[HTTP2Seen, ...]:
        """What each lane saw so far."""
        self._say("")
        return self._read()

    def stop(self) -> tuple[HTTP2Seen, ...]:
        """Stop all clients, once they have their answers; returns what each lane saw."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        return self._read()

    def _say(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> tuple[HTTP2Seen, ...]:
        assert self._process is not None and self._process.stdout is not None
        fields = HTTP2Seen.__dataclass_fields__
        return tuple(
            HTTP2Seen(
                **{name: value for name, value in lane.items() if name in fields}
                | {"failures": tuple(lane["failures"])}
            )
            for lane in json.loads(self._process.stdout.readline())
        )


def _program() -> Path:
    """The built program, from the cache or else built."""
    digest = hashlib.sha256((_SOURCE / "main.go").read_bytes()).hexdigest()[:12]

    def build(target: Path) -> None:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        command = [str(go_command(Silent())), "build", "-trimpath", "-o", str(target / "kept_http2"), "."]
        subprocess.run(command, cwd=_SOURCE, env=environment, check=True, timeout=_BUILD_SECONDS)

    return built(cache_root() / "go-programs" / f"kept_http2-{digest}", build) / "kept_http2"
