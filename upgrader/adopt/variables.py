"""A container's plain environment variables, as a chart's values have them, and what refers to them. Pure.

The charts render variables in the order of their names, where another one may stand before the one that refers to it:
so what has a reference, or an escaped `$`, is written as the text that the program sees. Only a reference to a variable
with `valueFrom` stays: the charts have their own of these first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from upgrader.contract.variables import expanded, written_variables

__all__ = ["as_written", "variables_of"]

_SPECIAL = re.compile(r"\$(?:\$|\(([^)]*)\))")


def as_written(text: str) -> str:
    """What a chart's pod has in its command line for a text that the program is to see."""
    return text.replace("$", "$$") if _SPECIAL.search(text) else text


def variables_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value for a chart, from which the program sees the same."""
    seen, _ = expanded(container, "$$")
    written = {name: text for name, text in written_variables(container) if text is not None}
    return {name: seen[name] if _SPECIAL.search(text) else text for name, text in written.items()}
