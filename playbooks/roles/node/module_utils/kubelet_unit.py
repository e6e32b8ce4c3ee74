"""The systemd unit of the kubelet, or of containerd: which files it has, and whether another kubelet would start."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Unit", "UnitError", "complaint", "read_unit", "trial_command", "unknown_fields", "without_flags"]

_SERVICE = "org.freedesktop.systemd1.Service"
_UNIT = "org.freedesktop.systemd1.Unit"
_SECONDS = 60

# A kubelet with this flag gets as far as the check of its configuration, says what is wrong with all of it, and ends:
# it has no dry run of its own (checked in 1.32 to 1.37).
_ENDS_EARLY = "--max-pods=-1"
_EXPECTED = "invalid configuration: maxPods (--max-pods) -1 must not be a negative number"


class UnitError(Exception):
    """systemd doesn't say what is asked. The text says what and why."""


class Unit(NamedTuple):
    """How systemd starts a program. Variables in the arguments are not yet replaced."""

    program: str
    arguments: tuple[str, ...]
    environment: tuple[str, ...]
    environment_files: tuple[tuple[str, bool], ...]
    """Path, and whether it may be missing."""
    fragments: tuple[str, ...]
    """The unit's own file and its drop-ins."""
    process: int
    """The process that runs, or 0."""
    started: float
    """When, in seconds since the epoch."""
    kill_mode: str = ""
    """What of the unit is ended with it: with `process`, what it has started goes on."""

    def current(self) -> bool:
        """Whether the process that runs is the program in place, and was started after the last change of its files.

        A file of a time to come, of a clock that was ahead, says nothing: no start would ever be after it.
        """
        try:
            running, there = os.stat(f"/proc/{self.process}/exe"), os.stat(self.program)
            changed = [os.stat(path).st_mtime for path in self.files() if os.path.exists(path)]
        except OSError:
            return False
        now = time.time()
        return os.path.samestat(running, there) and all(at <= self.started or at > now for at in changed)

    def files(self) -> list[str]:
        """Everything that an upgrade, or an administrator, might change about how it is started."""
        return sorted({*self.fragments, *(path for path, _ in self.environment_files), *self.configuration_files()})

    def configuration_files(self) -> list[str]:
        """The configuration files that are named literally in the unit."""
        words = [*self.arguments, *(word for text in self.environment for word in text.partition("=")[2].split())]
        return [word.partition("=")[2] for word in words if word.startswith("--config=/")]


def read_unit(name: str, kind: str = "kubelet") -> Unit:
    """What systemd knows of a unit that starts a program named `kind`. Raises UnitError."""
    starts, environment, files, process, started, kill_mode = _properties(
        name, _SERVICE, "ExecStart", "Environment", "EnvironmentFiles", "MainPID", "ExecMainStartTimestamp", "KillMode"
    )
    fragment, drop_ins = _properties(name, _UNIT, "FragmentPath", "DropInPaths")
    if len(starts) != 1:
        raise UnitError(f"{name} has {len(starts)} ExecStart= commands instead of one. Is {kind} a systemd unit here?")
    program, arguments = starts[0][0], starts[0][1][1:]
    if os.path.basename(program) != kind:
        raise UnitError(f"{name} starts {program}, not a program named {kind}: its flags are unknown")
    return Unit(
        program=program,
        arguments=tuple(arguments),
        environment=tuple(environment),
        environment_files=tuple((path, bool(optional)) for path, optional in files),
        fragments=(fragment, *drop_ins) if fragment else tuple(drop_ins),
        process=int(process),
        started=int(started) / 1e6,
        kill_mode=str(kill_mode),
    )


def without_flags(text: str, flags: Iterable[str]) -> str:
    """The text of an environment file without some flags, each with its value."""
    for flag in flags:
        text = re.sub(rf"[ \t]*(?<![\w-])--{re.escape(flag)}(?:=[^\s\"']*|[ \t]+(?!-)[^\s\"']+)?(?![\w-])", "", text)
    return text


def trial_command(unit: Unit, program: str, replaced: dict[str, str], over: dict[str, str] | None = None) -> list[str]:
    """The command that lets systemd start another kubelet as the unit would, up to the check of its configuration.

    systemd itself reads the environment files and replaces variables, as only it knows how. `replaced` has other files
    in place of environment files; `over` has files that only this kubelet sees in place of others.
    """
    options = ["--quiet", "--wait", "--pipe", "--collect", "--service-type=exec"]
    options += [f"--property=RuntimeMaxSec={_SECONDS}", "--property=ProtectSystem=strict"]
    options += [f"--setenv={setting}" for setting in unit.environment]
    for path, other in sorted((over or {}).items()):
        options.append(f"--property=BindReadOnlyPaths={other}:{path}")
    for path, optional in unit.environment_files:
        options.append(f"--property=EnvironmentFile={'-' if optional else ''}{replaced.get(path, path)}")
    return ["systemd-run", *options, "--", program, *unit.arguments, _ENDS_EARLY]


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """What the tried kubelet doesn't accept, in its words; "" if it is content. Never content without an answer."""
    text = ended.stderr + "\n" + ended.stdout
    said = re.search(r"failed to validate kubelet configuration, error: (.*?), path: ", text)
    if said:
        rest = said.group(1).replace(_EXPECTED, "", 1).strip("[], ")
        return rest if said.group(1).count(_EXPECTED) == 1 else said.group(1)
    patterns = (r'"command failed" err="((?:[^"\\]|\\.)*)"', r"^Error: (.*)$", r"^panic: (.*)$")
    found = [match.group(1) for pattern in patterns for match in re.finditer(pattern, text, re.MULTILINE)]
    if found:
        return found[-1].replace('\\"', '"')
    last = [line for line in text.splitlines() if line.strip()][-3:]
    return f"exit code {ended.returncode}; its last lines: {' / '.join(last) or 'nothing'}"


def unknown_fields(ended: subprocess.CompletedProcess[str], fields: dict[str, Any]) -> list[str]:
    """Those of the fields, as `a.b`, that the tried kubelet doesn't know. It says so, and would start without them."""
    said = re.findall(r"strict decoding error: (.*)", ended.stderr + "\n" + ended.stdout)
    unknown = {name for line in said for name in re.findall(r'unknown field \\?"([^"\\]+)', line)}
    return sorted(unknown & set(_paths(fields)))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """The path of everything in a value, as `a.b[0].c`."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _paths(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _paths(each, f"{path}[{index}]")


def _properties(unit: str, interface: str, *names: str) -> list[Any]:
    escaped = "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):02x}" for c in unit)
    path = f"/org/freedesktop/systemd1/unit/{escaped}"
    command = ["busctl", "--json=short", "get-property", "org.freedesktop.systemd1", path, interface, *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnitError(f"systemd can't be queried about {unit}: {error}") from error
    if done.returncode:
        raise UnitError(f"systemd can't be queried about {unit}: {shlex.join(command)}: {done.stderr.strip()}")
    return [json.loads(line)["data"] for line in done.stdout.splitlines()]
