"""An inventory that is read as YAML alone, which anyone may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config import inventory_text
from upgrader.config.inventory_text import group_has_hosts


@pytest.mark.parametrize("hosts", [{}, {"a": None}])
def test_a_long_chain_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: dict[str, None]) -> None:
    """A host at its end is found. Each group is looked at once: all of them for each would take minutes here."""
    chain = {f"g{number}": {"children": {f"g{number + 1}": None}} for number in range(20_000)}
    groups = {"controllers": {"children": {"g0": None}}, **chain, "g20000": {"hosts": hosts}}
    monkeypatch.setattr(inventory_text, "read_any", lambda _: groups)
    assert group_has_hosts(tmp_path, "controllers") is bool(hosts)
