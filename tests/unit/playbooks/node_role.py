"""The role `node` without a node: what its tasks say, and its modules run in this process."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped]
from ansible.template import Templar, trust_as_template  # type: ignore[import-untyped]

from testkit.command import REPOSITORY

__all__ = ["complaint", "holds", "module", "task", "tasks", "template"]

_ROLE = REPOSITORY / "playbooks/roles/node"


def tasks(name: str) -> list[dict[str, Any]]:
    """The tasks of a file."""
    return list(_load(f"tasks/{name}.yml"))


def task(file: str, name: str) -> dict[str, Any]:
    """A task by its name."""
    (found,) = [each for each in tasks(file) if each["name"] == name]
    return found


def complaint(file: str, name: str, **facts: Any) -> str:
    """What an assertion of the role says of a node with these facts; "" where it holds."""
    asserted = task(file, name)
    applies, right = asserted.get("when", []), asserted["ansible.builtin.assert"]["that"]
    if not holds(applies, **facts) or holds(right, **facts):
        return ""
    return str(_templar(facts).template(asserted["ansible.builtin.assert"]["fail_msg"]))


def holds(conditions: Any, **facts: Any) -> bool:
    """Whether one condition, or each of several, is true on a node with these facts."""
    templar = _templar(facts)
    return all(templar.evaluate_conditional(trust_as_template(str(each))) for each in _conditions(conditions))


def template(text: str, **facts: Any) -> Any:
    """What a template of the role is, on a node with these facts."""
    return _templar(facts).template(trust_as_template(text))


def module(name: str, **parameters: Any) -> dict[str, Any]:
    """What a module of the role answers."""
    said = io.StringIO()
    with patch_module_args(parameters), contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        runpy.run_path(str(_ROLE / f"library/{name}.py"), run_name="__main__")
    answer: dict[str, Any] = json.loads(said.getvalue())
    return answer


def _templar(facts: dict[str, Any]) -> Any:
    return Templar(DataLoader(), variables={**_load("defaults/main.yml"), **_load("vars/main.yml"), **facts})


def _conditions(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, list) else [value]


def _load(path: str) -> Any:
    return DataLoader().load_from_file(str(_ROLE / path), trusted_as_template=True)
