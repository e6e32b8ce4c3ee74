"""One line of a reason."""

from __future__ import annotations

import pytest

from upgrader.model.first_words import first_words


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("disk full\nmore", "disk full"),
        (
            "playbook tune.yml failed on 1 of the hosts:\n  controller-1: task 'copy': disk full\n  controller-2: no",
            "playbook tune.yml failed on 1 of the hosts: controller-1: task 'copy': disk full",
        ),
        ("it ended:", "it ended:"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_line_that_stands_for_all(reason: str, shown: str) -> None:
    """A list of runs, or a picture of one, has the cause, and not only that there is one."""
    assert first_words(reason) == shown
