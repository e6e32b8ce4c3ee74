"""The part of a pod's name that says which partition it holds, by a budget's regular expression.

Budgets are written for RE2, whose time is bounded for any expression; Python's engine may never end. So what would
is refused: repetitions within repetitions, more ways to match a name than are tried in milliseconds, and what RE2
doesn't know either. A single such budget would block guard's answers for all others.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["InvalidRegex", "PartitionRegex"]

_MOST_CHARACTERS = 256
_MOST_WAYS = 200_000
_LONGEST_NAME = 63  # a StatefulSet's pod has its name as a label
_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9A-Fa-f",
}
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]|\(\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|[a-zA-Z-]*[:)])"
    r"|\{[0-9]*,?[0-9]*\}|.",
    re.DOTALL,
)
_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[:)]")


class InvalidRegex(ValueError):
    """Why it can't be used."""


@dataclass(frozen=True)
class PartitionRegex:
    """A regular expression for the whole of a pod's name, and the group in it that is the partition."""

    text: str
    group: int

    @classmethod
    def parse(cls, text: str, group: int | None) -> PartitionRegex:
        """Checked; without a `group` there must be one only. Raises `InvalidRegex`."""
        if len(text) > _MOST_CHARACTERS:
            raise InvalidRegex(f"it has {len(text)} characters, more than {_MOST_CHARACTERS}")
        _refuse_what_takes_for_ever(text)
        if "[[" in _translated(text) or "[:" in _translated(text):
            raise InvalidRegex("it has an unsupported character class")
        try:
            groups = _compiled(text).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidRegex(str(error)) from None
        if groups == 0:
            raise InvalidRegex("it has no group in parentheses")
        if group is None and groups > 1:
            raise InvalidRegex(f"it has {groups} groups, and podNameRegexGroup isn't set")
        if group is not None and not 1 <= group <= groups:
            raise InvalidRegex(f"podNameRegexGroup is {group}, but the expression has {groups} groups")
        return cls(text, group or 1)

    def partition(self, name: str) -> str | None:
        """The partition of the pod with this name; None if the name doesn't say."""
        return _partition(self.text, self.group, name)


@lru_cache(maxsize=64)
def _compiled(text: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # Of "--", "||" and the like in a set, which mean the characters, as RE2 has it: a later Python may change that.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(_translated(text), re.ASCII)


def _translated(text: str) -> str:
    for posix, characters in _POSIX.items():
        text = text.replace(posix, characters)
    return text


@lru_cache(maxsize=65536)
def _partition(text: str, group: int, name: str) -> str | None:
    found = _compiled(text).fullmatch(name) if len(name) <= _LONGEST_NAME else None
    return found[group] or None if found else None


def _refuse_what_takes_for_ever(text: str) -> None:
    """Refuse a repetition of what itself repeats or has alternatives, and what could match a name in too many ways."""
    ways = _Ways()
    before = ""
    varies = [False]  # for each group that is open: can what is in it match in more than one way?
    closed_varies = False  # …and for the one that has just been closed
    for part in _tokens(text):
        repeats = part in "*+?" or (part[0] == "{" and part != "{")
        if repeats and before == "repetition":
            if part != "?":  # this one only makes it lazy
                raise InvalidRegex("it has a repetition of a repetition")
        elif repeats:
            if closed_varies and part != "?":
                raise InvalidRegex("it repeats a group that contains a repetition or alternatives")
            ways.repeat(part)
            varies[-1] = True
        elif part == "|":
            ways.choose()
            varies[-1] = True
        elif part[0] == "(" and part[-1] != ")":
            ways.open()
            varies.append(False)
        elif part == ")":
            ways.close()
        closed_varies = part == ")" and len(varies) > 1 and varies.pop()
        varies[-1] = varies[-1] or closed_varies
        before = "repetition" if repeats else part
    if (found := ways.most()) > _MOST_WAYS:
        many = f"{found:,}" if found < 10**12 else "countless"
        raise InvalidRegex(
            f"a name could match it in {many} ways, more than {_MOST_WAYS:,}: use fewer repetitions and alternatives"
        )


class _Ways:
    """The largest number of ways in which a name could match: if it doesn't match, all are tried."""

    def __init__(self) -> None:
        self._endless, self._others = 0, 1
        self._alternatives = [1]  # of each group that is open

    def repeat(self, part: str) -> None:
        """`*`, `+`, `?`, or with numbers."""
        least, comma, most = part.strip("{}").partition(",")
        if part in "*+" or (comma and not most):
            self._endless += 1
        elif part == "?":
            self._others *= 2
        elif comma:
            self._others *= max(1, min(int(most), _LONGEST_NAME) - int(least) + 1)

    def choose(self) -> None:
        """One alternative more."""
        self._others = self._others // self._alternatives[-1] * (self._alternatives[-1] + 1)
        self._alternatives[-1] += 1

    def open(self) -> None:
        """A group begins."""
        self._alternatives.append(1)

    def close(self) -> None:
        """It ends."""
        if len(self._alternatives) > 1:
            self._alternatives.pop()

    def most(self) -> int:
        """A name's characters can be dealt out to repetitions in so many ways, and the rest is chosen for each."""
        return math.comb(_LONGEST_NAME + self._endless, self._endless) * self._others


def _tokens(text: str) -> Iterator[str]:
    """Its characters, with what belongs together in one: escapes, sets, `(?…`, `{m,n}`. Refuses what RE2 hasn't."""
    for found in _TOKEN.finditer(text):
        part = found[0]
        if part == "(" and text.startswith("(?", found.start()):
            raise InvalidRegex("it has a lookaround, or another unsupported kind of group")
        if _FLAGS.fullmatch(part) and not set(part) <= set("(?imsU-:)"):
            raise InvalidRegex(f"it has unsupported flags: {part}")  # with x, spaces part what belongs together
        if part[0] == "\\" and part[1:].isdigit():
            raise InvalidRegex("it has a backreference")
        if part.startswith("{,"):
            raise InvalidRegex(f"it has {part}, which RE2 reads as text: write {{0{part[1:]}")
        yield part
