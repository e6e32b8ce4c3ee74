"""The figure of docs/architecture.md, made from the import contracts in pyproject.toml: `make docs` writes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["page_with_figure", "render"]

_REPOSITORY = Path(__file__).parents[1]
_PAGE = _REPOSITORY / "docs" / "architecture.md"
_FIGURE = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
_WHOLE = "upgrader"
_INSIDE = re.compile(r"^upgrader\.in_cluster\.\w+$")
"""Packages of which the figure has the layers as well: the programs that run in a cluster."""


def render() -> str:
    """The figure, as Mermaid: a row for each layer, the highest first; packages of one row don't know each other."""
    settings = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts: Sequence[Mapping[str, Any]] = settings["contracts"]
    lines = ["flowchart TB"]
    drawn = []
    for contract in contracts:
        for container in contract.get("containers", ()):
            if container == _WHOLE or _INSIDE.match(container):
                lines += _stack(container, [_rooms(layer) for layer in contract["layers"]])
                drawn.append(container)
    for contract in contracts:
        for shared in contract.get("protected_modules", ()):
            users = [each for each in drawn if each in contract["allowed_importers"]]
            lines += [f'  {_id(user)} --> {_id(shared)}["{_name(shared)}"]' for user in users]
    return "\n".join(lines) + "\n"


def _rooms(layer: str) -> list[str]:
    """Those of one layer, which import-linter separates by `|`, in brackets where one may be missing."""
    return [room.strip(" ()") for room in layer.split("|")]


def _stack(container: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f'  subgraph {_id(container)}["{_name(container)}"]'
    for number, row in enumerate(rows):
        yield f'    {_id(container)}_{number}["{" · ".join(row)}"]'
    yield "    " + " --> ".join(f"{_id(container)}_{number}" for number in range(len(rows)))
    yield "  end"


def _name(module: str) -> str:
    return f"{module.replace('.', '/')}/"


def _id(module: str) -> str:
    return module.rpartition(".")[2]


def page_with_figure(page: str) -> str:
    """The page, with its figure as it should be."""
    return _FIGURE.sub(lambda _: f"```mermaid\n{render()}```\n", page, count=1)


if __name__ == "__main__":
    _PAGE.write_text(page_with_figure(_PAGE.read_text()))
