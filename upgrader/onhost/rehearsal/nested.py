"""The outer levels of an object that Python's JSON parser doesn't read, as it is nested too deeply for it.

Kubernetes stores up to 10,000 levels in a custom resource whose schema preserves unknown fields.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["outer_levels"]

_LEVELS = 16
"""More than what an object is known by has, and its metadata may be nested as deeply: `managedFields` repeats it."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def outer_levels(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The object that begins at a place of a JSON text, with null for what is nested deeper; and where it ends. Raises
    ValueError for one without an end.
    """
    depth, since = 0, at
    kept = []  # type: list[str]
    for found in _TOKEN.finditer(text, at):
        if found.group() in ("{", "["):
            depth += 1
            if depth == _LEVELS + 1:
                kept += [text[since : found.start()], "null"]
        elif found.group() in ("}", "]"):
            depth -= 1
            if depth == _LEVELS:
                since = found.end()
            elif not depth:
                return json.loads("".join((*kept, text[since : found.end()]))), found.end()
    raise ValueError("an object without an end")
