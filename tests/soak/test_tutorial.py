"""The tutorial of docs/getting-started.md: its commands, typed on a terminal of 80×24, show what the page says."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.command import REPOSITORY, upgrader
from testkit.console_page import Step, console_block, differences
from testkit.terminal import COLUMNS, PROMPT, on_terminal

PAGE = Path(__file__).parents[2] / "docs/getting-started.md"
NAME = "tutorial"
_MINUTES = re.compile(r"The rest takes (\d+) minutes")
_SLOWER = 4
"""How much slower a busy machine may be than the page says."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where the commands are typed: a checkout, of which only the charts are used. The lab is removed at the end."""
    (tmp_path / "charts").symlink_to(REPOSITORY / "charts")
    yield tmp_path
    upgrader("-C", tmp_path, "lab", "down", "--force", "--name", own_name())


def own_name() -> str:
    """The lab's, as a machine has labs of other tests as well."""
    return f"tutorial-{os.getpid()}"


def test_what_is_seen_is_what_the_page_says(home: Path) -> None:
    """Each command shows what stands below it, and all of them take about as long as the page says."""
    page = tutorial()
    wrong: list[str] = []
    first = time.monotonic()
    for heading in sections(page):
        begun = time.monotonic()
        seen = [typed(step.command, home) for step in blocks(page, heading)]
        for step in seen:  # for the page, when it is written
            sys.stdout.write("\n".join([f"$ {step.command}", *step.lines, ""]))
        sys.stdout.write(f"--- {heading}: {time.monotonic() - begun:.0f} s\n")
        wrong += filter(None, [differences(blocks(page, heading), seen)])
    minutes = (time.monotonic() - first) / 60
    if minutes > _SLOWER * said_minutes(page):
        wrong.append(f"all took {minutes:.0f} minutes")
    assert not wrong, "\n\n".join(wrong)


def tutorial() -> str:
    """Its part of the page."""
    return PAGE.read_text().partition("\n## Tutorial\n")[2].partition("\n## ")[0]


def sections(page: str) -> list[str]:
    """Its headings, in their order."""
    return re.findall(r"^### (.*)$", page, re.MULTILINE)


def said_minutes(page: str) -> int:
    """How long it takes, as the page says."""
    found = _MINUTES.search(page)
    assert found, "the page doesn't say how long it takes"
    return int(found[1])


def blocks(page: str, heading: str) -> list[Step]:
    """All commands of a section, which may have several blocks."""
    section = re.search(rf"^### {re.escape(heading)}\n.*?(?=^### |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, heading
    found = re.findall(r"^```console\n.*?^```", section[0], re.MULTILINE | re.DOTALL)
    return [step for block in found for step in console_block(f"# x\n{block}\n", "x")]


def typed(command: str, home: Path) -> Step:
    """Type it, and look at the terminal: without the command itself, and without the prompt after it."""
    environment = {"PATH": f"{REPOSITORY}/.venv/bin:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    if "helm" in command.split():
        environment["KUBECONFIG"] = f".lab/{own_name()}/kubeconfig"
    shell = ["bash", "-c", f"cd {home} && {command.replace(NAME, own_name())}"]
    shown = on_terminal(shell, shown_as=command, environment=environment, timeout_seconds=900)
    lines = [line.replace(own_name(), NAME) for line in shown.lines]
    typed_rows = -(-len(f"{PROMPT}{command}") // COLUMNS)
    if lines[0] == f"{PROMPT}{command}"[:COLUMNS].rstrip():
        lines = lines[typed_rows:]
    text = "\n".join(lines).rstrip().removesuffix(PROMPT.rstrip())
    return Step(command, tuple(text.splitlines()))
