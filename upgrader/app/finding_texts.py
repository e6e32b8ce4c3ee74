"""What checks may find, read from their code: the one place that has a finding's id, title and remedy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["CheckTexts", "DescribedFinding", "check_texts"]

_UPGRADER = Path(__file__).parents[1]
_HEADINGS = {"findings": "Binaries"}
_WORDS = {"apis": "APIs", "ssh": "SSH"}


@dataclass(frozen=True)
class DescribedFinding:
    """One finding as its code has it; `…` for what is only known when it is made."""

    id: str
    severity: str
    title: str
    remedy: str


@dataclass(frozen=True)
class CheckTexts:
    """What one file of checks says of itself, and what its checks may find, by id."""

    heading: str
    claim: str
    """What holds where they find nothing."""
    findings: tuple[DescribedFinding, ...]


@cache
def check_texts() -> tuple[CheckTexts, ...]:
    """Of every file with checks, by its name."""
    paths = (*sorted((_UPGRADER / "preflight").glob("*.py")), _UPGRADER / "trial" / "findings.py")
    return tuple(texts for path in paths if (texts := _texts(path)).findings)


def _texts(path: Path) -> CheckTexts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = sorted({finding.id: finding for finding in _findings(tree)}.values(), key=lambda finding: finding.id)
    claim = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    return CheckTexts(_HEADINGS.get(path.stem) or _heading(path.stem), claim, tuple(found))


def _heading(module: str) -> str:
    text = " ".join(_WORDS.get(word, word) for word in module.split("_"))
    return text[0].upper() + text[1:]


def _findings(tree: ast.Module) -> Iterator[DescribedFinding]:
    names = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            id_, severity, title, *more = [_text(argument, names) for argument in node.args]
            if "…" not in id_:
                yield DescribedFinding(id_, severity.replace("…", "depends"), title, more[1] if len(more) > 1 else "")


def _text(node: ast.expr, names: dict[str, ast.expr]) -> str:
    """A string expression; of two alternatives, both."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, names) + _text(node.right, names)
    if isinstance(node, ast.Name) and node.id in names:
        return _text(names[node.id], names)
    if isinstance(node, ast.IfExp):
        either = [text for text in (_text(node.body, names), _text(node.orelse, names)) if text]
        return " or ".join(either) if all("…" not in text for text in either) else "…"
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, names) if isinstance(node.value, ast.Name) else "…"
    return "…"
