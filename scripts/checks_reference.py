"""The reference of the checks before a run, made from their code: `make docs` writes docs/reference/checks.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, SKIPPABLE

__all__ = ["described_findings", "render"]

_UPGRADER = Path(__file__).parents[1] / "upgrader"
_CHECKS = (*sorted((_UPGRADER / "preflight").glob("*.py")), _UPGRADER / "trial" / "findings.py")
_HEADINGS = {"findings": "Binaries"}
_HEAD = """\
# Checks

What `upgrader check`, `plan` and `run` look at before anything changes. Made from the checks' code by `make docs`.

All checks are made, whatever the others find, and none changes anything. A finding of severity `error` blocks the run;
so does `unknown`, as what could not be checked is not known to be healthy. A check that fails itself is a finding
`FAMILY.unknown`, with the reason. `…` stands for the names of objects and other details.

Where a check lacks a right that only checks need, it is the warning `FAMILY.forbidden`, which names the right. That can
be so for {forbidden}.

Only a run's step `flags and files` finds `binaries`, and `check --try-binaries`: that needs short-lived pods.

`check --offline` reads the cluster's folder alone: the sections Folder charts, Folder files and Helm client, the target
itself, and what `removed-apis` finds in the planned releases. All other questions it lists as not asked.

`--skip ID --reason TEXT` of `check` and `run` starts a run in spite of a finding; the run's journal records both.
These families can be skipped: {skippable}. Without the others no run gets far, or none finds a way back.

`checks.severities` of [upgrader.yaml](upgrader-yaml.md#checks) sets the severity of a finding by its id, for every
command. Any can be raised; only those that can be skipped can be lowered. The report shows the check's own severity,
too, and the run's journal records both.
"""


@dataclass(frozen=True)
class _Described:
    """One finding as its code has it; `…` for what is only known when it is made."""

    id: str
    severity: str
    title: str
    remedy: str


def render() -> str:
    """The reference as Markdown: one section for each file of checks."""
    skippable, forbidden = (
        ", ".join(f"`{each}`" for each in sorted(every)) for every in (SKIPPABLE, READ_BY_CHECKS_ONLY)
    )
    head = _HEAD.format(skippable=skippable, forbidden=forbidden)
    return "\n".join([head, *(section for path in _CHECKS for section in _section(path))])


def described_findings() -> dict[str, str]:
    """Each id in the code, and the severities that its check gives it (`error or warning`)."""
    return {finding.id: finding.severity for path in _CHECKS for finding in _findings(ast.parse(path.read_text()))}


def _section(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    found = sorted({finding.id: finding for finding in _findings(tree)}.values(), key=lambda finding: finding.id)
    if not found:
        return
    docstring = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    yield f"## {_HEADINGS.get(path.stem) or _heading(path.stem)}\n\n{docstring}\n"
    yield "| id | severity | finding | remedy |\n|---|---|---|---|"
    for finding in found:
        cells = (f"`{finding.id}`", finding.severity, finding.title, finding.remedy)
        yield f"| {' | '.join(cell.replace('|', '&#124;').replace(chr(10), ' ') for cell in cells)} |"
    yield ""


def _heading(module: str) -> str:
    words = ["APIs" if word == "apis" else "SSH" if word == "ssh" else word for word in module.split("_")]
    text = " ".join(words)
    return text[0].upper() + text[1:]


def _findings(tree: ast.Module) -> Iterator[_Described]:
    names = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            id_, severity, title, *more = [_text(argument, names) for argument in node.args]
            if "…" not in id_:
                yield _Described(id_, severity.replace("…", "depends"), title, more[1] if len(more) > 1 else "")


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


if __name__ == "__main__":
    print(render(), end="")
