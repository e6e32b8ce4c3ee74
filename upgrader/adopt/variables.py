"""A container's plain environment variables, as a chart's values have them, and what refers to them. Pure.

The kubelet replaces `$(NAME)` in a value by a variable that stands before it, and takes `$$` for `$`; in the words of a
command line, by any variable of the container. The charts render variables in the order of their names, where another
one may stand before it: so what has either is written as the text that the program sees. Only a reference to a variable
with `valueFrom` stays: the charts have their own of these first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["as_written", "seen_variables", "seen_words", "variables_of"]

_SPECIAL = re.compile(r"\$(?:\$|\(([^)]*)\))")
_DOLLAR = re.compile(r"\$(?:\$|\(([^)]*)\))?")


def seen_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value as the program sees it; of a name that is given twice, the last one. None with `valueFrom`."""
    return _replaced(container, "$")[0]


def seen_words(words: Iterable[str], container: Mapping[str, Any]) -> tuple[str, ...]:
    """Words of the container's command line as its program sees them. A reference to a variable with `valueFrom`, or
    to none at all, stays as it is.
    """
    known = _replaced(container, "$")[1]
    return tuple(_expanded(word, known, "$") for word in words)


def as_written(text: str) -> str:
    """What a chart's pod has in its command line for a text that the program is to see."""
    return text.replace("$", "$$") if _SPECIAL.search(text) else text


def variables_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value for a chart, from which the program sees the same."""
    written = {str(each["name"]): _text(each) for each in container.get("env") or () if "valueFrom" not in each}
    return {
        name: value if _SPECIAL.search(written[name]) else written[name]
        for name, value in _replaced(container, "$$")[0].items()
    }


def _replaced(container: Mapping[str, Any], dollar: str) -> tuple[dict[str, str], dict[str, str]]:
    """Name → value, with `dollar` for each `$` that the program sees: of the plain ones, and of all."""
    plain: dict[str, str] = {}
    known: dict[str, str] = {}
    for entry in container.get("env") or ():
        name = str(entry["name"])
        if "valueFrom" in entry:
            known[name] = f"$({name})"
        else:
            plain[name] = known[name] = _expanded(_text(entry), known, dollar)
    return plain, known


def _expanded(text: str, known: Mapping[str, str], dollar: str) -> str:
    def replacement(found: re.Match[str]) -> str:
        return known.get(found[1], f"{dollar}({found[1]})") if found[1] is not None else dollar

    return _DOLLAR.sub(replacement, text)


def _text(entry: Mapping[str, Any]) -> str:
    value = entry.get("value")
    return "" if value is None else str(value)
