"""The tasks that the role `node` runs on a node, by what it finds there: each is a session of SSH."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.unit.playbooks.node_role import holds, tasks, template

__all__ = ["executions"]

_LOCAL = {"ansible.builtin.assert"}
"""Ansible does this by itself."""
_PARTS = {"ansible.builtin.include_tasks", "ansible.builtin.import_tasks"}


def executions(file: str, facts: Mapping[str, Any]) -> list[str]:
    """The names of the tasks of a file that are run on a node, those of a loop as often as it has items."""
    return list(_run(tasks(file), facts))


def _run(some: list[dict[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    for each in some:
        if each.keys() & _LOCAL or each.get("delegate_to") == "localhost":
            continue
        items = template(each["loop"], **facts) if "loop" in each else [None]
        if not holds(each.get("when", []), **facts):
            continue
        if "block" in each:
            yield from _run(each["block"], facts)
        elif parts := _PARTS & each.keys():
            file = template(each[parts.pop()], **facts)
            yield from _run(tasks(file.removesuffix(".yml")), {**facts, **each.get("vars", {})})
        else:
            yield from [each["name"]] * len(items)
