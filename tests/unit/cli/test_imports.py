"""What is not imported for commands that don't use it. Times are measured by `python -m bench.start_up`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("kubernetes", "pyhelm3", "ansible_runner", "paramiko", "pydantic", "cryptography", "jinja2", "yaml", "asyncio")
OURS = ("upgrader.app", "upgrader.adapters", "upgrader.engine", "upgrader.steps", "upgrader.lab", "upgrader.preflight")
_PROBE = """
import sys
from upgrader.cli.main import main
sys.argv = ["upgrader", *{arguments}]
try:
    main()
except SystemExit:
    pass
sys.stderr.write("\\n" + " ".join(sys.modules))
"""
_EVERY_HELP = """
import sys
import click
from upgrader.cli.main import cli

def show(command, context):
    command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            show(command.get_command(context, name), click.Context(command, info_name=name, parent=context))

show(cli, click.Context(cli))
sys.stderr.write("\\n" + " ".join(sys.modules))
"""


def modules_after(program: str) -> set[str]:
    """What a process has imported that ran this."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ended.stderr.splitlines()[-1].split())


def test_help_of_every_command_needs_no_use_case() -> None:
    """The help of all commands, one after the other, has imported neither a library behind a port nor a use case."""
    assert modules_after(_EVERY_HELP) & {*HEAVY, *OURS, "rich"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["--version"], ["plan", "--no-such-option"]])
def test_what_ends_before_it_begins_needs_none_either(arguments: list[str]) -> None:
    """Nor has what a whole process does around it: masking its output, and telling its outcome."""
    assert modules_after(_PROBE.format(arguments=json.dumps(arguments))) & {*HEAVY, *OURS, "rich"} == set()
