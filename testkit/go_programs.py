"""Programs of Go modules that tests run themselves, and that Debian doesn't have: built once, by `go install`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent

__all__ = ["go_program"]

_SECONDS = 3000.0
"""cosign has the clients of every cloud in it."""


def go_program(package: str, version: str) -> Path:
    """The program of a package, as `example.com/module/cmd/name`, from the cache or else built.

    It needs no library, so that it runs in any root file system. Go compares the checksums of all modules with its
    public log. Raises AssertionError with Go's output if it can't be built.
    """
    name = package.rpartition("/")[2]

    def build(target: Path) -> None:
        environment = {**os.environ, "GOBIN": str(target), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        command = ["nice", "-n", "19", str(go_command(Silent())), "install", "-trimpath", f"{package}@{version}"]
        done = subprocess.run(
            command,
            cwd=target.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{package}@{version} can't be built: {done.stderr[-2000:]}"

    return built(cache_root() / "go-programs" / f"{name}-{version}", build) / name
