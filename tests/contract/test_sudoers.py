"""The rule of sudo that `upgrader init` writes, as sudo reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from testkit.debian_programs import debian_program
from upgrader.app.machine_files import sudoers_rule

pytestmark = pytest.mark.contract


def _checked(file: Path) -> subprocess.CompletedProcess[str]:
    """What visudo of Debian's package says; one that was extracted finds its libraries beside it."""
    visudo = debian_program("sudo", "visudo", "usr/sbin")
    libraries = {"LD_LIBRARY_PATH": str(visudo.parents[1] / "libexec/sudo")}
    file.chmod(0o440)
    command = [str(visudo), "-cf", str(file)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **libraries}, check=False)


def test_sudo_understands_its_rule(tmp_path: Path) -> None:
    """A file that sudo can't read would lock everybody out of it; one that is wrong is told apart."""
    sudoers_rule(tmp_path, "deploy").write()
    found = _checked(tmp_path / "sudoers")
    assert (found.returncode, found.stderr) == (0, "") and "parsed OK" in found.stdout
    (tmp_path / "wrong").write_text("deploy ALL=(root NOPASSWD: ALL\n")
    assert _checked(tmp_path / "wrong").returncode != 0
