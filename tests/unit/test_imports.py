"""What import-linter can't say of imports between tests; its own contracts are in pyproject.toml.

Its rules name modules, not how one module's folder relates to another's.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_conftests_are_imported_only_within_their_folder() -> None:
    """A folder's conftest serves that folder; shared helpers are in a named module, or in testkit/."""
    foreign = [
        f"{path.relative_to(TESTS)} imports {module}"
        for path in sorted(TESTS.rglob("*.py"))
        if "conftest" in path.read_text(encoding="utf-8")  # in a moment, and few do
        for module in imported(path)
        if module.endswith(".conftest") and module != f"{name_of(path.parent)}.conftest"
    ]
    assert foreign == []


def test_what_draws_knows_no_command() -> None:
    """cli/ui renders values for every command, so that it never depends on one of them."""
    drawing = TESTS.parent / "upgrader" / "cli" / "ui"
    upward = [
        f"{path.name} imports {module}"
        for path in sorted(drawing.rglob("*.py"))
        for module in imported(path)
        if module.startswith("upgrader.cli.") and not f"{module}.".startswith("upgrader.cli.ui.")
    ]
    assert upward == []
    assert any(drawing.rglob("*.py"))


def name_of(path: Path) -> str:
    """The dotted name of a folder of tests."""
    return ".".join(path.relative_to(TESTS.parent).parts)


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports from other folders; `from a import b` may import a or a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:  # ruff (TID) keeps the others within the folder
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_dependency_is_used() -> None:
    """What nobody imports is only one more package to trust. ansible-core is a program, and zoneinfo reads tzdata."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((TESTS.parent / "upgrader").rglob("*.py"))}
    declared = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=~!;\[ ]", each, maxsplit=1)[0] for each in declared} - {"ansible-core", "tzdata"}
    others = {"pyyaml": "yaml"}

    def used(module: str) -> bool:
        # To parse a file takes longer than to search it: only those that name the module are, until one imports it.
        return any(
            module == name.partition(".")[0]
            for path, text in texts.items()
            if re.search(rf"\b(?:import|from) {module}\b", text)
            for name in imported(path)
        )

    assert sorted(name for name in names if not used(others.get(name, name.replace("-", "_")))) == []
