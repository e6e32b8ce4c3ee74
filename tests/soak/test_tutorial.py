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
_TIMES = re.compile(r"^\| \[(?P<heading>[^]]+)\]\(#[^)]*\) \| (?P<number>\d+) (?P<unit>s|min) \|$", re.MULTILINE)
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
    """Each command shows what stands below it, and each step takes about as long as the table says."""
    page = tutorial()
    wrong: list[str] = []
    for heading, seconds in sections(page).items():
        begun = time.monotonic()
        seen = [typed(step.command, home) for step in blocks(page, heading)]
        took = time.monotonic() - begun
        for step in seen:  # for the page, when it is written
            sys.stdout.write("\n".join([f"$ {step.command}", *step.lines, ""]))
        sys.stdout.write(f"--- {heading}: {took:.0f} s, {seconds:.0f} s on the page\n")
        wrong += filter(None, [differences(blocks(page, heading), seen)])
        if took > _SLOWER * seconds + 30:
            wrong.append(f"{heading} took {took:.0f} s")
    assert not wrong, "\n\n".join(wrong)


def tutorial() -> str:
    """Its part of the page."""
    return PAGE.read_text().partition("\n## Tutorial\n")[2].partition("\n## ")[0]


def sections(page: str) -> dict[str, float]:
    """Heading → the seconds in the table, in its order."""
    return {
        found["heading"]: float(found["number"]) * {"s": 1, "min": 60}[found["unit"]] for found in _TIMES.finditer(page)
    }


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


def test_every_section_has_its_time() -> None:
    """A step that the table lacks would not be typed; on busy cores, all of them are less than a quarter of an hour."""
    page = tutorial()
    assert set(sections(page)) == set(re.findall(r"^### (.*)$", page, re.MULTILINE))
    assert sum(sections(page).values()) < 15 * 60
