"""Which commands the test of the tutorial types: only `make soak` does, and nothing would show that one is left out."""

from __future__ import annotations

import re

from tests.soak.test_tutorial import blocks, said_minutes, sections, tutorial


def test_every_command_of_the_tutorial_is_typed() -> None:
    """In the page's order, without one that is left out; and the page says how long they take."""
    page = tutorial()
    shown = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    typed = [step.command for heading in sections(page) for step in blocks(page, heading)]
    assert typed == shown and any(" rehearse " in command for command in typed)
    assert 0 < said_minutes(page) < 15
