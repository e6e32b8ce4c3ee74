"""Messages that Troubleshooting quotes, by which readers search it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from testkit.command import REPOSITORY

_OF_KUBERNETES = ("unknown flag: --", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", 'namespaces "')
"""How messages of Kubernetes begin, which upgrader passes on."""
_PLACEHOLDER = re.compile(r"…|\b[A-Z]{2,}[A-Z0-9]*\b")
_TWO_LITERALS = re.compile(r'"\n\s*f?"')
"""A string that goes on in the next line of the code."""


def _quoted() -> Iterator[str]:
    """The first column of each table of messages."""
    within = False
    for line in (REPOSITORY / "docs/troubleshooting.md").read_text().splitlines():
        within = line.startswith("| in the message |") or (within and line.startswith("|"))
        if within:
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def test_every_quoted_message_is_one_of_upgraders() -> None:
    """A message that was reworded is reworded on the page, too: readers find it by the words on their screen."""
    ours = [each for each in _quoted() if not each.startswith(_OF_KUBERNETES)]
    said = "\n".join(_TWO_LITERALS.sub("", path.read_text()) for path in (REPOSITORY / "upgrader").rglob("*.py"))
    parts = {each: [part.strip(" :,") for part in _PLACEHOLDER.split(each)] for each in ours}
    assert len(ours) >= 10
    assert [each for each, found in parts.items() if any(part not in said for part in found)] == []
