"""Rules for messages that are too long for a word of `scripts/words.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from testkit.command import REPOSITORY

_HELM = re.compile(r"\bhelm (?:history|rollback|(?:un)?install|upgrade|get \w+) (?=\S)[^`;)]*?(?=[`;)]|[.,:] |[.:]?$)")
"""A command with the name of a release, up to what ends it in a sentence."""


def _text(node: ast.AST) -> str | None:
    """A string, or an f-string with `{}` for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _instructions(node: ast.AST) -> Iterator[str]:
    """All strings of the code but docstrings, and but what `upgrader` says of itself: notes and summaries of steps."""
    if (text := _text(node)) is not None:
        yield text
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.FunctionDef) and node.name == "summary":
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "note":
        return
    for child in ast.iter_child_nodes(node):
        yield from _instructions(child)


def _messages(word: str) -> Iterator[tuple[str, str]]:
    """The path and the text of each message in a file that has the word."""
    for path in sorted((REPOSITORY / "upgrader").rglob("*.py")):
        if word in (code := path.read_text()):
            yield from ((str(path.relative_to(REPOSITORY)), text) for text in _instructions(ast.parse(code)))


def test_commands_of_helm_name_the_namespace() -> None:
    """Helm searches a release only in the kubeconfig's namespace: without -n, the command says "release: not found"."""
    commands = [(path, found[0]) for path, text in _messages("helm ") for found in _HELM.finditer(text)]
    assert len(commands) >= 15
    assert [each for each in commands if not re.search(r" (-n|--namespace) ", each[1])] == []
