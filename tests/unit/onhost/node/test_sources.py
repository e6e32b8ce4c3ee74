"""What a bare Python on a controller must be able to run, and the rules that must be written only once."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import upgrader

ROOT = Path(upgrader.__file__).parent


def sources(*folders: str) -> list[Path]:
    """Every module in them."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


SHARED = sources("contract", "onhost/node")
SENT = [*SHARED, *(path for path in sources("onhost") if not {"sending", "node"} & {*path.parts})]
IN_IMAGE = [*SHARED, *sources("in_cluster/shared", "in_cluster/checkpointer")]
IN_CHECKPOINTER = (
    "upgrader.contract",
    "upgrader.in_cluster.checkpointer",
    "upgrader.in_cluster.shared",
    "upgrader.onhost.node",
)
USERS = sources("in_cluster/checkpointer", "onhost/facts", "onhost/common", "onhost/sending", "recover")


def name_of(path: Path) -> str:
    """A test's name."""
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    """Every module that is imported, wherever in the file, with the package that a relative import starts from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1].relative_to(ROOT.parent) if node.level else None
            yield ".".join((*(folder.parts if folder else ()), *(node.module or "").split(".")))


@pytest.mark.parametrize("path", SENT, ids=name_of)
def test_only_the_standard_library(path: Path) -> None:
    """What is shared imports itself and the standard library; what is sent to a host with it also imports itself."""
    ours: tuple[str, ...] = ("upgrader.contract", "upgrader.onhost.node")
    if path not in SHARED:
        ours += ("upgrader.onhost.common", "upgrader.onhost.facts", f"upgrader.onhost.{path.parent.name}")
    for module in imports(path):
        assert module.split(".")[0] in sys.stdlib_module_names or module.startswith(ours), module


@pytest.mark.parametrize("path", IN_IMAGE, ids=name_of)
def test_the_image_has_what_is_imported_in_it(path: Path) -> None:
    """Of `upgrader` the pod-checkpointer's image holds four packages only."""
    for module in imports(path):
        ours = module.startswith(IN_CHECKPOINTER)
        assert ours or not module.startswith("upgrader"), module


@pytest.mark.parametrize("path", SENT, ids=name_of)
def test_the_oldest_python_that_ansible_manages(path: Path) -> None:
    """The syntax is Python 3.8's, nothing that is evaluated there subscripts what only later versions can, and the
    usual methods that came later are not called."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    hints = {id(n) for hint in never_evaluated(tree) for n in ast.walk(hint)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and id(node) not in hints:
            generics = {"dict", "list", "tuple", "set", "frozenset", "type", "Callable", "Mapping", "Iterable"}
            assert node.value.id not in generics, f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute):
            later = {"removeprefix", "removesuffix", "bit_count", "is_relative_to", "hardlink_to", "aclosing"}
            assert node.attr not in later, f"line {node.lineno}: {ast.unparse(node)}"


def never_evaluated(tree: ast.Module) -> Iterator[ast.AST]:
    """What is never evaluated: hints, as all modules postpone them, and what only type checkers read."""
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if (hint := getattr(node, field, None)) is not None:
                yield hint
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def judges(function: ast.FunctionDef) -> bool:
    """Whether it both orders things and goes by what generations are chosen by."""
    text = ast.unparse(function)
    return any(word in text for word in JUDGED) and any(word in text for word in ORDERING)


JUDGED = (".intact", ".failed", ".damage", "has_images", ".missing", ".records")
ORDERING = ("max(", "min(", "sorted(", "reversed(", "[-1]", ".sort(")
ALLOWED = {
    "rules.py:_surplus": "what is kept when generations are pruned, not what is started",
    "node_commands.py:generations": "all of them, as they are listed",
    "node_commands.py:_choose": "refuses what an operator asked for; the checkpointer's own is always its newest",
    "apiserver_causes.py:_none": "whose images to import, where nothing can be started",
    "loop.py:_apply": "damage, as it is logged",
    "store.py:_write_failed": "the marks, as they are written",
    "checkpoint_facts.py:_workload": "the policy that the newest record names",
}
"""Functions that order generations, or judge them, for another purpose."""


def test_the_rule_which_generation_to_start_is_written_once() -> None:
    """Both sides call it, and no function of either orders generations by what the rule judges them by."""
    called = {(p.stem, name) for p in USERS for name in ("best", "restorable") if f" {name}(" in p.read_text()}
    assert {("rules", "best"), ("next_actions", "restorable")} <= called
    found = set()
    for path in USERS:
        functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
        found |= {f"{path.name}:{function.name}" for function in functions if judges(function)}
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    "source",
    [
        "for g in reversed(w.generations):\n  if g.intact and g.number not in tried:\n   return g",
        "good = [g for g in gs if g.intact and not g.missing]\n return good[-1]",
        "return max(gs, key=lambda g: (not g.failed, g.number))",
    ],
)
def test_a_second_rule_would_be_found(source: str) -> None:
    """These are the rules that were written a second and a third time."""
    (function,) = ast.parse(f"def _choose(w, gs, tried):\n {source}").body
    assert isinstance(function, ast.FunctionDef) and judges(function)


def test_no_label_or_layout_is_written_twice() -> None:
    """The checkpointer's labels and the paths of its files are defined in `contract` and `onhost.node` alone."""
    words = ("checkpointer.upgrader.io", "failed.json", "generation.json", "manifest.json", "checkpointer/workloads")
    for path in USERS:
        tree = ast.parse(path.read_text())
        docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                assert not any(word in node.value for word in words), f"{name_of(path)}:{node.lineno}"
