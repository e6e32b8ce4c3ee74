"""In which line of a release's values a flag is set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import Document, KeyPath, read_values, shown
from upgrader.errors import ConfigError
from upgrader.model.components import COMPONENTS

__all__ = ["flag_place"]


def flag_place(values: Path | None, component: str, flag: str) -> str:
    """`FILE:LINE`, for a flag as it is typed (`--v`); "" where the chart sets it, or it can't be told from another's.

    The values of one release may have the flags of several components, each below its own part.
    """
    if values is None or not values.is_file():
        return ""
    try:
        document = read_values(values)
    except ConfigError:
        return ""
    found = [where for where in document.lines if _sets(document, where, flag)]
    own = [where for where in found if any(_same(str(key), component) for key in where)]
    others = [where for where in found if any(_same(str(key), each) for key in where for each in COMPONENTS)]
    (only,) = own if len(own) == 1 else found if len(found) == 1 and not others else [()]
    return f"{shown(values)}:{document.line(only)}" if only else ""


def _sets(document: Document, where: KeyPath, flag: str) -> bool:
    """A key of the flag's name, or an entry of a list as it is typed."""
    if not where:
        return False
    if isinstance(where[-1], str):
        return where[-1] == flag.lstrip("-")
    return str(_at(document.data, where)).partition("=")[0] == flag


def _at(data: Any, where: KeyPath) -> Any:
    """None for what an anchor has merged into a mapping."""
    for key in where:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _same(key: str, component: str) -> bool:
    """`controllerManager` is kube-controller-manager's part."""
    return key.lower() == component.removeprefix("kube-").replace("-", "")
