"""Something is on the screen before a command begins what takes longer than a second: imports, hosts, the API."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from upgrader.cli.main import cli

ASK = (
    "adopt",
    "adopt --undo",
    "adopt --new-controllers",
    "approve STEP --reason why",
    "backup",
    "backup verify FILE --identity FILE --on-controller",
    "certs renew",
    "certs rotate-ca cancel",
    "certs rotate-ca finish",
    "certs rotate-ca show",
    "certs rotate-ca sign",
    "certs rotate-ca trust",
    "certs show",
    "check",
    "check --trial",
    "check --wait",
    "controllers remove NODE",
    "doctor",
    "finalize",
    "fleet init --to v1.37.1",
    "fleet plan",
    "fleet run",
    "guard forget-cell CELL",
    "guard off",
    "guard on",
    "history",
    "init",
    "migrate-storage",
    "plan",
    "plan --out FILE.new",
    "recover",
    "recover --dry-run",
    "rehearse",
    "rehearse copy --out FILE.new",
    "report",
    "report --compare RUN RUN",
    "restore FILE --identity FILE",
    "resume",
    "resume RUN",
    "rollback",
    "run",
    "run --resume",
    "status",
    "versions",
)
"""Command lines that ask hosts or the API."""
OTHERS = {
    "backup keygen": "makes a key on this machine",
    "bundle create": "needs no cluster; skopeo says itself what it copies",
    "bundle verify": "reads a file",
    "completion": "prints a file",
    "config show": "reads the folder",
    "explain": "prints a text",
    "fleet approve": "writes the campaign's journal",
    "fleet job": "runs in a container, where nobody looks",
    "fleet jobs-gone": "writes the campaign's journal",
    "fleet pause": "writes the campaign's journal",
    "fleet render": "reads the folder",
    "fleet report": "reads the folder",
    "fleet resume": "writes the campaign's journal",
    "fleet retry": "writes the campaign's journal",
    "fleet skip": "writes the campaign's journal",
    "fleet status": "reads the folder",
    "images push": "says each image that it pushes",
    "lab": "of machines on this machine, with a display of its own",
    "probe": "shows its counts, from the first second",
    "replay": "reads a file",
}
"""The other commands, and why they have nothing to say in their first second."""
USE_CASES = ("upgrader.app", "upgrader.adopt", "upgrader.fleet", "upgrader.gates", "upgrader.engine", "upgrader.steps")
FIRST = "reading the cluster's folder…"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Begun(Exception):
    """The command begins to import its use case."""


def names(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that does something by itself."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        if command.invoke_without_command and path:
            yield " ".join(path)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from names(found, (*path, name))
    else:
        yield " ".join(path)


@pytest.mark.parametrize("line", ASK)
def test_something_is_said_before_the_use_case_is_imported(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal; and it is gone again when the command ends, so that an error stands in a line of its own."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    screen, real = Terminal(), builtins.__import__
    seen: list[str] = []

    def imports(name: str, *rest: Any, **options: Any) -> Any:
        caller = sys._getframe(1)
        own = str(caller.f_globals.get("__name__")).startswith("upgrader.cli.")
        if own and caller.f_code.co_name not in ("<module>", "front_end") and name.startswith(USE_CASES):
            seen.append(screen.getvalue())
            raise Begun
        return real(name, *rest, **options)

    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(builtins, "__import__", imports)
    with pytest.raises(Begun):
        cli.main(["-C", str(tmp_path), *line.split()], standalone_mode=False)
    monkeypatch.undo()
    assert seen[0].endswith(FIRST) and screen.getvalue().endswith("\r\x1b[K")


def test_every_command_says_something_or_has_a_reason() -> None:
    """A new command is either in the list that is tested above, or in the one that says why it needs not be."""
    commands = set(names(cli))
    tested = {name for name in commands if any(f"{line} ".startswith(f"{name} ") for line in ASK)}
    excused = {name for name in commands if any(f"{name} ".startswith(f"{other} ") for other in OTHERS)}
    assert tested | excused == commands and not tested & excused
