"""What a controller tells of its etcd member, before a snapshot is taken of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from upgrader.onhost.backup.ask_member import main
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import etcd_facts


def test_what_the_member_answers_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is one of a majority, its own revision, and its words."""
    facts: dict[str, Any] = {"healthy": False, "revision": 7, "said": "RAFT NO LEADER", "version": "3.6.8"}
    monkeypatch.setattr(etcd_facts, "server", lambda root, expected: facts)
    main()
    assert json.loads(capsys.readouterr().out) == {"healthy": False, "revision": 7, "said": "RAFT NO LEADER"}


def test_a_member_that_does_not_answer_is_not_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown is not healthy; why is told."""

    def silent(root: str, expected: list[str]) -> dict[str, Any]:
        raise Failed("connection refused")

    monkeypatch.setattr(etcd_facts, "server", silent)
    main()
    assert json.loads(capsys.readouterr().out) == {"healthy": False, "revision": 0, "said": "connection refused"}
