"""The variables of a container, and the text that its program sees where one refers to them. Pure.

The kubelet replaces `$(NAME)` in a variable's value by a variable that stands before it, and takes `$$` for `$`; in the
words of a command line, by any variable of the container.

It is Python 3.8's, as programs on hosts import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["expanded", "seen_variables", "seen_words", "written_variables"]

_DOLLAR = re.compile(r"\$(?:\$|\(([^)]*)\))?")


def seen_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Name → value as the program sees it; of a name that is given twice, the last one. None with `valueFrom`."""
    return expanded(container, "$")[0]


def seen_words(words: Iterable[str], container: Mapping[str, Any]) -> tuple[str, ...]:
    """Words of the container's command line as its program sees them. A reference to a variable with `valueFrom`, or
    to none at all, stays as it is.
    """
    known = expanded(container, "$")[1]
    return tuple(_expanded(word, known, "$") for word in words)


def expanded(container: Mapping[str, Any], dollar: str) -> tuple[dict[str, str], dict[str, str]]:
    """Name → value, with `dollar` for each `$` that the program sees: of the plain ones, and of all."""
    plain: dict[str, str] = {}
    known: dict[str, str] = {}
    for name, text in written_variables(container):
        if text is None:
            known[name] = f"$({name})"
        else:
            plain[name] = known[name] = _expanded(text, known, dollar)
    return plain, known


def written_variables(container: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Each variable's name and value as they are in `env`, None for one with `valueFrom`; without what the kubelet
    takes for no variable.
    """
    given = container.get("env")
    for entry in given if isinstance(given, (list, tuple)) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            value = entry.get("value")
            text = "" if value is None else str(value)
            yield entry["name"], None if "valueFrom" in entry else text


def _expanded(text: str, known: Mapping[str, str], dollar: str) -> str:
    def replacement(found: re.Match[str]) -> str:
        return known.get(found[1], f"{dollar}({found[1]})") if found[1] is not None else dollar

    return _DOLLAR.sub(replacement, text)
