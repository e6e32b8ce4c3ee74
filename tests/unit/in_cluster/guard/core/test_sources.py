"""The core is pure: what may be imported in it, and what may not be called."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import upgrader.in_cluster.guard.core as core

FILES = sorted(Path(core.__path__[0]).glob("*.py"))
ALLOWED = {
    *("__future__", "collections", "dataclasses", "datetime", "enum", "functools", "hashlib", "itertools", "json"),
    *("math", "re", "types", "typing", "warnings"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_core_imports_no_module_that_does_io_or_knows_the_time(path: Path) -> None:
    """Of the standard library what computes, of `upgrader` nothing but itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            module = node.module or ""
            computes = module.split(".")[0] in ALLOWED or module == "urllib.parse"
            assert computes or module.startswith(("upgrader.contract.", "upgrader.in_cluster.guard.core.")), module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_core_reads_no_clock_and_opens_no_file(path: Path) -> None:
    """The time is an argument, and so is all else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("now", "utcnow", "today")
        elif isinstance(node, ast.Name):
            assert node.id not in ("open", "print", "input")
