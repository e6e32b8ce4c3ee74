"""A Debian machine with no checkout on it, in which a page's console blocks are run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.lab.debian import packages_layer
from upgrader.lab.progress_port import Silent

__all__ = ["BareMachine", "Step", "console_block", "differences"]

_PACKAGES = Path(__file__).with_name("bare_machine_packages.txt")
_MARK = "\x1eSTEP"


@dataclass(frozen=True)
class Step:
    """A command, and what it printed (or is expected to: `…` stands for any text)."""

    command: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class BareMachine:
    """A root file system of its own; needs root."""

    root: Path
    network: Path | None = None
    """A network namespace; None: its loopback is all the network that it has."""

    @classmethod
    def made(cls, root: Path, network: Path | None = None, packages: Path = _PACKAGES) -> BareMachine:
        """With pipx, skopeo and an ssh client, as a person installs them with apt; `root` is a new folder.

        `packages` is a list of others, one a line.
        """
        root.mkdir()
        layer = packages_layer("bare-machine", packages, Silent())
        subprocess.run(["tar", "--numeric-owner", "-xf", str(layer), "-C", str(root)], check=True)
        return cls(root, network)

    def run(
        self, commands: list[str], *, mounted: Mapping[str, Path], before: str = "", seconds: float = 900.0
    ) -> list[Step]:
        """Run the commands one after another in one shell of root, and go on if one fails.

        `mounted` is path there → path here, read-only; `before` is run first, and what it prints is not kept.
        """
        script = [f"{{ {before or ':'}; }} >/dev/null 2>&1", "cd /root"]
        for command in commands:
            script += [f"echo {shlex.quote(_MARK)}", f"eval {shlex.quote(command)}"]
            script += ['code=$?; [ $code = 0 ] || echo "(exit code $code)"']
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
        first, *outputs = done.stdout.split(f"{_MARK}\n")
        if len(outputs) != len(commands):
            print(done.stdout, file=sys.stderr)
            raise RuntimeError(f"{len(outputs)} of {len(commands)} commands were run: {first}")
        # What nspawn itself says as it ends, where the kernel has no mount of its own for it.
        outputs[-1] = re.sub(r"Attempted to remove disk file system.*\n", "", outputs[-1])
        return [Step(command, tuple(text.splitlines())) for command, text in zip(commands, outputs, strict=True)]


def console_block(page: str, heading: str) -> list[Step]:
    """The first ```console block below a heading of a Markdown page. A command goes on where its line ends in `\\`."""
    block = re.search(rf"^#+ {re.escape(heading)}\n.*?^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block, f"no console block below {heading!r}"
    steps: list[Step] = []
    for line in block[1].replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], ()))
        else:
            steps[-1] = Step(steps[-1].command, (*steps[-1].lines, line))
    return steps


def differences(expected: list[Step], seen: list[Step]) -> str:
    """What a page says otherwise than it was, as text; empty: nothing. Empty lines, and spaces
    at the ends of lines, don't count. A line `…` stands for any lines, or none.
    """
    found = []
    for page, run in zip(expected, seen, strict=True):
        pattern, text = _text(page), _text(run)
        if not re.fullmatch(_form(pattern), f"{text}\n", re.DOTALL):
            found.append(f"$ {page.command}\n--- the page says\n{pattern}\n--- it was\n{text}")
    return "\n\n".join(found)


def _form(pattern: str) -> str:
    """As a regular expression for lines with their ends."""
    lines = []
    for line in pattern.splitlines() or [""]:
        text = ".*".join(re.escape(part) for part in line.split("…"))
        lines.append(r"(?:.*\n)?" if line == "…" else f"{text}\n")
    return "".join(lines)


def _text(step: Step) -> str:
    return "\n".join(line.rstrip() for line in step.lines if line.strip())
