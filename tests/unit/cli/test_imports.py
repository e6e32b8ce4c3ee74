"""What is not imported for commands that don't use it. Times are measured by `python -m bench.start_up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.example_runs import GOOD, journal_of

HEAVY = ("kubernetes", "pyhelm3", "ansible_runner", "paramiko", "pydantic", "cryptography", "jinja2", "yaml", "asyncio")
EXECUTING = ("upgrader.app.execution", "upgrader.engine.execution.runner", "upgrader.gates.availability", "hpack")
REPORTING = ("upgrader.reporting.report", "upgrader.rendering", "jinja2")
ASKING = (
    "upgrader.preflight",
    "upgrader.recover",
    "upgrader.steps.registry",
    "upgrader.engine.history",
    "cryptography",
)
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


def modules_after(program: str, **settings: str) -> set[str]:
    """What a process has imported that ran this."""
    environment = {**os.environ, **settings}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return set(ended.stderr.splitlines()[-1].split())


def test_help_of_every_command_needs_no_use_case() -> None:
    """The help of all commands, one after the other, has imported neither a library behind a port nor a use case."""
    assert modules_after(_EVERY_HELP) & {*HEAVY, *OURS, "rich"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["--version"], ["plan", "--no-such-option"]])
def test_what_ends_before_it_begins_needs_none_either(arguments: list[str]) -> None:
    """Nor has what a whole process does around it: masking its output, and telling its outcome."""
    assert modules_after(_PROBE.format(arguments=json.dumps(arguments))) & {*HEAVY, *OURS, "rich"} == set()


@pytest.mark.parametrize("line", ["rollback --run ", "rollback --to ", "approve ", "report ", "rollb"])
def test_a_shell_waits_for_no_events(line: str, tmp_path: Path) -> None:
    """What completes runs and steps names them from their journals without the classes of events and states."""
    journal_of(GOOD, tmp_path)
    words = f"upgrader -C {tmp_path} {line}"
    asked = {"_UPGRADER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    seen = modules_after(_PROBE.format(arguments="[]"), **asked)
    of_the_engine = {"upgrader.model.event", "upgrader.engine.state", "upgrader.engine.journal.journal_file"}
    assert seen & {*HEAVY, *OURS, "rich", *of_the_engine} <= {"upgrader.engine"}


def test_a_plan_needs_nothing_that_executes_it() -> None:
    """Neither what carries out a run, probes the API meanwhile and writes its report, nor the libraries of these."""
    seen = modules_after("import sys, upgrader.app.upgrade; sys.stderr.write(' '.join(sys.modules))")
    assert seen & {*EXECUTING, *REPORTING} == set()


def test_a_plan_of_a_folder_needs_nothing_that_asks_a_cluster(tmp_path: Path) -> None:
    """No check, recovery or run, none of their steps, and no library that connects to the API or to a host."""
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {ansible_host: 127.0.0.1}}}\n")
    (tmp_path / "beep.yml").write_text("[{hosts: all}]\n")
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\npipeline: [{playbook: beep.yml}]\n")
    seen = modules_after(_PROBE.format(arguments=json.dumps(["-C", str(tmp_path), "plan", "--offline"])))
    assert "upgrader.cli.ui.offline_plan" in seen  # it has printed one
    assert seen & {*EXECUTING, *REPORTING, *ASKING, "kubernetes", "paramiko", "ansible_runner"} == set()
