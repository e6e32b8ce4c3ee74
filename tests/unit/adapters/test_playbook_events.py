"""What is known of a playbook that failed, by Ansible's events."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.adapters.playbooks import _Events, _result
from upgrader.errors import PlaybookError

TUNE = Path("tune.yml")


@pytest.mark.parametrize(
    ("events", "begun"),
    [
        ([], False),
        (["playbook_on_start", "playbook_on_play_start", "error"], False),
        (["playbook_on_start", "runner_on_start"], True),
        (["playbook_on_start", "runner_on_unreachable"], True),
    ],
    ids=["a syntax error", "a module that isn't there", "a task", "a host that isn't reached"],
)
def test_whether_a_task_was_begun(events: list[str], begun: bool) -> None:
    """Only Ansible's own end before the first task proves that nothing was changed; a lost connection doesn't."""
    seen = _Events()
    for each in events:
        seen.take({"event": each, "event_data": {"host": "controller-1"}})
    with pytest.raises(PlaybookError) as caught:
        _result(TUNE, "failed", seen, ["no such module: cop"], 60.0, "")
    assert caught.value.begun is begun


@pytest.mark.parametrize("status", ["timeout", "canceled"])
def test_playbook_that_was_ended_may_have_begun(status: str) -> None:
    """Its last events may be lost with it."""
    with pytest.raises(PlaybookError) as caught:
        _result(TUNE, status, _Events(), [], 60.0, "")
    assert caught.value.begun
