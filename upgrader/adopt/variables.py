"""A container's plain environment variables, as a chart's values have them. Pure.

The kubelet replaces `$(NAME)` in a value by a variable that stands before it, and takes `$$` for `$`. The charts render
variables in the order of their names, where another one may stand before it: so what has either is written as the text
that the program sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["seen_variables", "variables_of"]

_SPECIAL = re.compile(r"\$(?:\$|\(([^)]*)\))")


def seen_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value as the program sees it; of a name that is given twice, the last one. None with `valueFrom`."""
    seen: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        return "$" if found[1] is None else seen.get(found[1], found[0])

    for entry in container.get("env") or ():
        if "valueFrom" not in entry:
            seen[str(entry["name"])] = _SPECIAL.sub(replaced, _text(entry))
    return seen


def variables_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value for a chart, from which the program sees the same."""
    written = {str(entry["name"]): _text(entry) for entry in container.get("env") or ()}
    return {
        name: value.replace("$", "$$") if _SPECIAL.search(written[name]) else value
        for name, value in seen_variables(container).items()
    }


def _text(entry: Mapping[str, Any]) -> str:
    value = entry.get("value")
    return "" if value is None else str(value)
