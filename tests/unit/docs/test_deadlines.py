"""docs/concepts.md says how long a run may wait for what, and by which key of upgrader.yaml that is changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
_SECTION = re.compile(r"^## `(?P<path>[^`]+)`.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_DEADLINE = re.compile(
    r"^\| `(?P<key>deadline|readyDeadline|timeout|after)` \| duration \| `(?P<default>[^`]+)` ", re.MULTILINE
)


def known_deadlines() -> list[tuple[str, str]]:
    """Key → default of all deadlines that upgrader.yaml has; of a pool, those that it has alone."""
    reference = (DOCS / "reference/upgrader-yaml.md").read_text()
    return [
        (f"{section['path']}.{found['key']}", found["default"])
        for section in _SECTION.finditer(reference)
        for found in _DEADLINE.finditer(section[0])
        if section["path"] != "nodes.pools[].detach"
    ]


@pytest.mark.parametrize(("key", "default"), known_deadlines())
def test_each_deadline_is_in_the_table(key: str, default: str) -> None:
    """A reader finds every one in one table, with its default; a new one can't be forgotten there."""
    page = (DOCS / "concepts.md").read_text()
    section = page.partition("## How long a gate may wait\n")[2].partition("\n## ")[0]
    assert f"| `{key}` | `{default}` |" in section


def test_all_are_looked_for() -> None:
    """The reference has them in the form that is looked for."""
    assert len(known_deadlines()) >= 10
