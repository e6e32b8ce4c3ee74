"""What checks and `recover` may find, read from their code: the one place that has a finding's id, title and remedy."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["CheckTexts", "DescribedFinding", "check_texts", "recovery_texts"]

_UPGRADER = Path(__file__).parents[1]
_HEADINGS = {"findings": "Trial", "differences": "Rehearsal"}
_WORDS = {"apis": "APIs", "ssh": "SSH"}
_SERVICES = ("containerd", "kubelet")
"""What `recover` examines as services of a controller: `….down` is an id of each."""
_FAMILIES = {"nodes": ("nodes", "workers")}
"""By module: the families in which its checks judge alike, so that the code has no family in their ids."""
_LOCAL = ("identity", "title", "remedy", "ways", "where")
"""A function's own names that are read as well: its last words before it makes the finding."""


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
    steps = _UPGRADER / "steps"
    of_steps = (steps / "rehearsal" / "differences.py", steps / "trial" / "findings.py")
    paths = (*sorted((_UPGRADER / "preflight").glob("*.py")), *of_steps)
    return tuple(texts for path in paths if (texts := _texts(path)).findings)


@cache
def recovery_texts() -> tuple[DescribedFinding, ...]:
    """What `recover` may find on the controllers, by id."""
    paths = sorted((_UPGRADER / "recover" / "diagnosis").rglob("*.py"))
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return _by_id(finding for tree in trees for finding in _findings(tree, _SERVICES))


def _texts(path: Path) -> CheckTexts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    claim = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    return CheckTexts(
        _HEADINGS.get(path.stem) or _heading(path.stem), claim, _by_id(_findings(tree, _FAMILIES.get(path.stem, ())))
    )


def _by_id(every: Iterable[DescribedFinding]) -> tuple[DescribedFinding, ...]:
    """Each id once: where it is worst, and says most."""
    found = dict[str, DescribedFinding]()
    for finding in every:
        before = found.get(finding.id)
        if before is None or _weight(finding) > _weight(before):
            found[finding.id] = finding
    return tuple(found[id_] for id_ in sorted(found))


def _weight(finding: DescribedFinding) -> tuple[bool, int]:
    return finding.severity == "error", len(f"{finding.title}{finding.remedy}".replace("…", ""))


def _heading(module: str) -> str:
    text = " ".join(_WORDS.get(word, word) for word in module.split("_"))
    return text[0].upper() + text[1:]


def _findings(tree: ast.Module, stand_ins: Sequence[str] = ()) -> Iterator[DescribedFinding]:
    """Each call of `Finding`. `stand_ins`: the families of an id whose family is only known when it is made."""
    names = dict(_assigned(tree.body))
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        local = sorted(_assigned(ast.walk(scope)), key=lambda pair: pair[1].lineno)
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                before = {name: value for name, value in local if value.lineno < node.lineno}
                known = {**names, **{name: value for name, value in before.items() if name in _LOCAL}}
                yield from _described(node, known, stand_ins)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _described(call: ast.Call, names: Mapping[str, ast.expr], stand_ins: Sequence[str]) -> Iterator[DescribedFinding]:
    ids, severity, title, *more = [_text(argument, names) for argument in call.args]
    for id_ in ids.split(" or "):
        family, _, rest = id_.partition(".")
        whole = [f"{each}.{rest}" for each in stand_ins] if family == "…" else [id_]
        for each in whole:
            if "…" not in each:
                yield DescribedFinding(each, severity.replace("…", "depends"), title, more[1] if len(more) > 1 else "")


def _text(node: ast.expr, names: Mapping[str, ast.expr]) -> str:
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
