"""A Debian machine without a checkout, on which a page's console blocks are run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testkit.console_page import Step, one_after_another, printed
from upgrader.lab.debian import packages_layer
from upgrader.lab.progress_port import Silent

__all__ = ["BareMachine"]

_PACKAGES = Path(__file__).with_name("bare_machine_packages.txt")


@dataclass(frozen=True)
class BareMachine:
    """A root file system of its own; needs root."""

    root: Path
    network: Path | None = None
    """A network namespace; None: it has only its loopback interface."""

    @classmethod
    def made(cls, root: Path, network: Path | None = None, packages: Path = _PACKAGES) -> BareMachine:
        """With pipx, skopeo and an ssh client, as a user installs them with apt; `root` is a new folder.

        `packages` is another list, one package a line.
        """
        root.mkdir()
        layer = packages_layer("bare-machine", packages, Silent())
        subprocess.run(["tar", "--numeric-owner", "-xf", str(layer), "-C", str(root)], check=True)
        return cls(root, network)

    def run(
        self, commands: list[str], *, mounted: Mapping[str, Path], before: str = "", seconds: float = 900.0
    ) -> list[Step]:
        """Run the commands one after another in one shell of root, and continue if one fails.

        `mounted` is path there → path here, read-only; `before` is run first, without its output.
        """
        script = ["{", before or ":", "} >/dev/null 2>&1", "cd /root"]
        script += one_after_another(commands)
        script.append("kill $(jobs -p) 2>/dev/null")
        (self.root / "root/steps").write_text("\n".join(script) + "\n")
        network = f"--network-namespace-path={self.network}" if self.network else "--private-network"
        engine = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", network, "--timezone=off"]
        engine += ["--pipe", f"--directory={self.root}"]
        engine += [f"--bind-ro={here}:{there}" for there, here in mounted.items()]
        engine += ["--", "env", "-i", "HOME=/root", "LANG=C.UTF-8", "COLUMNS=120"]
        engine += ["PATH=/root/.local/bin:/usr/local/bin:/usr/sbin:/usr/bin", "bash", "/root/steps"]
        done = subprocess.run(
            engine,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        # What nspawn itself prints at its end, if the kernel has no mount of its own for it.
        return printed(commands, re.sub(r"Attempted to remove disk file system.*\n", "", done.stdout))
