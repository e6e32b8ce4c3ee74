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


@pytest.mark.parametrize(
    "lost",
    [
        {"uuid": "1", "counter": 7, "stdout": "ok: [controller-1]"},
        {"event": "verbose", "uuid": "1", "counter": 7, "stdout": "TASK [Write the file] ****"},
        {"event": "verbose", "uuid": "1", "counter": 7, "stdout": "RUNNING HANDLER [Restart] ****"},
    ],
    ids=["a file that couldn't be written", "a callback that failed", "a handler"],
)
def test_events_that_are_lost_are_no_proof(lost: dict[str, object]) -> None:
    """A playbook that changed hosts on a full disk is undone: that no event came doesn't prove that no task began."""
    seen = _Events()
    for each in ({"event": "playbook_on_start"}, lost):
        seen.take(dict(each))
    with pytest.raises(PlaybookError) as caught:
        _result(TUNE, "failed", seen, [], 60.0, "")
    assert caught.value.begun


def test_success_without_counts_is_unknown() -> None:
    """It isn't told that the playbook has no task for any host, and may have begun."""
    with pytest.raises(PlaybookError, match="its result is unknown") as caught:
        _result(TUNE, "successful", _Events(), ["ok: [controller-1]"], 60.0, "")
    assert caught.value.begun and "ok: [controller-1]" in caught.value.remedy


def test_success_for_nobody() -> None:
    """Counts without a host are known: the playbook is for none, and has changed nothing."""
    seen = _Events()
    seen.take({"event": "verbose", "stdout": "[WARNING]: Could not match supplied host pattern, ignoring: gone"})
    seen.take({"event": "playbook_on_stats", "event_data": {"processed": {}}})
    with pytest.raises(PlaybookError, match="it has no tasks for the hosts") as caught:
        _result(TUNE, "successful", seen, [], 60.0, "")
    assert not caught.value.begun


@pytest.mark.parametrize("status", ["timeout", "canceled"])
def test_playbook_that_was_ended_may_have_begun(status: str) -> None:
    """Its last events may be lost with it."""
    with pytest.raises(PlaybookError) as caught:
        _result(TUNE, status, _Events(), [], 60.0, "")
    assert caught.value.begun
