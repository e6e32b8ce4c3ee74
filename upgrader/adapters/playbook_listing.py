"""How Ansible parses playbooks: their plays, with the hosts of each, and whether tags leave a task."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from upgrader.adapters.process_tree import end_tree
from upgrader.errors import PlaybookError, PlaybookRefused
from upgrader.ports import Play

__all__ = ["list_plays", "selects_tasks"]

_TAIL_LINES = 15
_ERROR = re.compile(r"^(?:\[ERROR\]: |ERROR! )", re.MULTILINE)
_PLAYBOOK = "\nplaybook: "
_TASK = re.compile(r"^      .*\tTAGS: \[", re.MULTILINE)
_PLAY = re.compile(
    r"^    pattern: \[(?P<pattern>.*)\]\n    hosts \(\d+\):(?P<hosts>(?:\n      .*)*)",
    re.MULTILINE,
)


def list_plays(
    playbooks: Sequence[Path],
    *,
    inventory: Path,
    folder: Path,
    environment: Mapping[str, str],
    timeout_seconds: float,
) -> tuple[tuple[Play, ...], ...]:
    """The plays of each playbook, as `ansible-playbook --list-hosts` has them. One call reads all of them, as Ansible's
    start and the inventory take most of the time. `folder` is Ansible's working directory: it would read an ansible.cfg
    there. Raises PlaybookRefused with Ansible's message for the first playbook that it refuses, as with
    `--syntax-check`, and PlaybookError if that is unknown.
    """
    named = [str(path.absolute()) for path in playbooks]
    words = ["--list-hosts", "--inventory", str(inventory.absolute()), *named]
    listed = _listed(words, folder, environment, timeout_seconds)
    if len(listed) != len(named):
        raise PlaybookError("ansible-playbook --list-hosts did not list the requested playbooks", begun=False)
    return tuple(tuple(_plays(text)) for text in listed)


def selects_tasks(
    playbook: Path,
    *,
    inventory: Path,
    variables: Path,
    folder: Path,
    environment: Mapping[str, str],
    timeout_seconds: float,
) -> bool:
    """Whether tags leave any task of a playbook, by `ansible-playbook --list-tasks`: it lists `meta` tasks, too, and no
    gathering of facts. `variables` is a file of them; raises as `list_plays` does.
    """
    given = ["--inventory", str(inventory.absolute()), "--extra-vars", f"@{variables}"]
    words = ["--list-tasks", *given, str(playbook.absolute())]
    return any(_TASK.search(text) for text in _listed(words, folder, environment, timeout_seconds))


def _listed(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_seconds: float
) -> Sequence[str]:
    """What Ansible lists of each playbook; `words` begin with the option for it."""
    program = shutil.which("ansible-playbook", path=environment["PATH"])
    if program is None:
        raise PlaybookError("ansible-playbook is not installed", remedy="upgrader doctor", begun=False)
    try:
        code, out, errors = _output([program, *words], folder, environment, timeout_seconds)
    except subprocess.TimeoutExpired as error:
        text = f"ansible-playbook {words[0]} timed out after {timeout_seconds:.0f} s"
        raise PlaybookError(text, begun=False) from error
    except OSError as error:
        raise PlaybookError(f"{program}: {error.strerror}", remedy="upgrader doctor", begun=False) from error
    if code:
        raise PlaybookRefused(_why(errors) or f"ansible-playbook failed with exit code {code}", begun=False)
    return out.split(_PLAYBOOK)[1:]


def _output(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_seconds: float
) -> tuple[int, str, str]:
    """The exit code, and what was written to standard output and standard error. Raises TimeoutExpired, OSError."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        try:
            out, errors = process.communicate(timeout=timeout_seconds)
        except BaseException:
            end_tree(process.pid)  # the inventory's programs, too: what it waited for is most often one of them
            raise
    return process.returncode, out, errors


def _plays(text: str) -> Iterator[Play]:
    for found in _PLAY.finditer(text):
        yield Play(found["pattern"].replace("'", ""), tuple(sorted(found["hosts"].split())))


def _why(text: str) -> str:
    """Ansible's error, without the warnings before it."""
    found = _ERROR.search(text)
    lines = [line.rstrip() for line in (text[found.end() :] if found else text).splitlines() if line.strip()]
    return "\n".join(lines[:_TAIL_LINES])
