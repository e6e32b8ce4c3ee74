"""An inventory that is read as YAML alone, which anyone may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config import inventory_text
from upgrader.config.inventory_text import written_names


@pytest.mark.parametrize("hosts", [{}, {"a": None}])
def test_a_long_chain_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: dict[str, None]) -> None:
    """A host at its end is found. Each group is looked at once: all of them for each would take minutes here."""
    chain = {f"g{number}": {"children": {f"g{number + 1}": None}} for number in range(20_000)}
    groups = {"controllers": {"children": {"g0": None}}, **chain, "g20000": {"hosts": hosts}}
    monkeypatch.setattr(inventory_text, "read_any", lambda _: groups)
    assert ("controllers" in written_names(tmp_path).groups) is bool(hosts)


@pytest.mark.parametrize(
    ("pattern", "nobody"),
    [
        ("workers", True),
        ("workers, gone", True),
        ("controllers", False),
        ("site", False),
        ("one", False),
        ("workers,one", False),
        ("all", False),
        ("localhost", False),
        ("ungrouped", False),
        ("work*", False),
        ("all:!one", False),
        ("{{ where }}", False),
        ("", False),
    ],
)
def test_whom_a_pattern_is_for(tmp_path: Path, pattern: str, nobody: bool) -> None:
    """Only plain names that are nobody's are known to be nobody; what Ansible has to resolve may be somebody."""
    path = tmp_path / "hosts.yml"
    path.write_text("site: {children: {controllers: {hosts: {one: {}}}}}\nworkers: {hosts: {}}\n")
    assert written_names(path).nobody(pattern) is nobody


def test_ranges_may_be_anybody(tmp_path: Path) -> None:
    """A name with a range stands for machines that only Ansible counts."""
    path = tmp_path / "hosts.yml"
    path.write_text("controllers: {hosts: {'c[1:3]': {}}}\n")
    assert not written_names(path).nobody("c2")
