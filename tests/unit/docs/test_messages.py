"""Rules for messages that are too long for a word of `scripts/words.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from testkit.command import REPOSITORY

_HELM = re.compile(r"\bhelm (?:history|rollback|(?:un)?install|upgrade|get \w+) (?=\S)[^`;)]*?(?=[`;)]|[.,:] |[.:]?$)")
"""A command with the name of a release, up to what ends it in a sentence."""

_DANGLING = re.compile(r"(?:If (?:it is,|none)|It|Its|They|There|That|These|Those|Until|None)\b")
"""Beginnings that say no action, or point to a text that stands elsewhere: docs/reference lists remedies alone."""
_REMEDY = re.compile(r'remedy=\(?\s*f?"([^"\n]+)')
_VERDICTS = ("pending", "broken", "unknown")
_NO_SUCH = re.compile(r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b)")


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


def _messages(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The path and the text of each message in which the pattern is, and where."""
    for path in sorted((REPOSITORY / "upgrader").rglob("*.py")):
        code = path.read_text()
        if pattern.search(" ".join(code.split())):
            for text in _instructions(ast.parse(code)):
                yield from ((str(path.relative_to(REPOSITORY)), found[0]) for found in pattern.finditer(text))


def test_commands_of_helm_name_the_namespace() -> None:
    """Helm searches a release only in the kubeconfig's namespace: without -n, the command says "release: not found"."""
    commands = list(_messages(_HELM))
    assert len(commands) >= 15
    assert [each for each in commands if not re.search(r" (-n|--namespace) ", each[1])] == []


def test_remedies_begin_with_what_to_do() -> None:
    """On the screen a remedy stands behind "Remedy:", and in the list of checks in a column of its own."""
    code = {str(path.relative_to(REPOSITORY)): path.read_text() for path in (REPOSITORY / "upgrader").rglob("*.py")}
    given = [(path, found[1]) for path, text in code.items() for found in _REMEDY.finditer(text)]
    rows = (REPOSITORY / "docs/reference/checks.md").read_text().splitlines()
    listed = [(row.split(" | ")[0], row.split(" | ")[3]) for row in rows if row.startswith("| `")]
    assert len(given) >= 400 and len(listed) >= 200
    assert [each for each in (*given, *listed) if _DANGLING.match(each[1])] == []


def test_what_an_object_is_not_is_said_in_plain_english() -> None:
    """ "is not a tar archive", not "is no tar archive"."""
    assert list(_messages(_NO_SUCH)) == []


def test_verdicts_of_gates_say_what_to_do() -> None:
    """The defaults are for tests: a gate knows its object, and names a command or a place to look."""
    vague = []
    for path in sorted((REPOSITORY / "upgrader").rglob("*.py")):
        if "upgrader.model.outcome import" in (code := path.read_text()):
            calls = (each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Call))
            made = (each for each in calls if isinstance(each.func, ast.Name) and each.func.id in _VERDICTS)
            vague += [f"{path}:{each.lineno}" for each in made if all(given.arg != "remedy" for given in each.keywords)]
    assert vague == []
