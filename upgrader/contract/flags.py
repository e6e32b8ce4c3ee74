"""The flags on a command line, as Kubernetes' components (pflag) and etcd (Go's `flag`) read them.

A flag is `--name=value`, `--name value` or `--name`; a letter's is `-v=2`, `-v2` or `-v 2`. `--` ends them. Only the
program knows which of its flags take no value. Here, a word after `--name` is its value unless it begins as a flag
does: numbers below zero (`--oom-score-adj -999`) and a lone `-` are values, `--other` and `-v2` are flags. So two
command lines are read otherwise than by pflag: `--name --other`, which gives `--name` a value that looks like a flag;
and a word after a flag that takes none, with which no component starts, as they accept no arguments.

It is Python 3.8's, as programs on hosts import it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from upgrader.contract.variables import seen_words

__all__ = [
    "Argument",
    "arguments_in",
    "command_line",
    "is_true",
    "last_values",
    "manifest_flags",
    "number",
    "values",
]

_LONG = re.compile(r"--(\w[\w.-]*)(?:=(.*))?", re.DOTALL)
_LETTER = re.compile(r"-([A-Za-z])(?:=?(.+))?", re.DOTALL)
_VALUE = re.compile(r"(?!-)|-$|-[0-9]")
"""How a word begins that can be a flag's value."""
_TRUE = frozenset(["1", "t", "T", "true", "True", "TRUE"])
"""As strconv.ParseBool reads it. Ansible's templates write `True`."""
_OCTAL = re.compile(r"([+-]?)0(_?[0-7].*)", re.DOTALL)
_ENTRY = re.compile(r"^( *)- +(\"[^\"]*\"|'[^']*'|[^\s#].*?)(?: +#.*)? *$")


class Argument(NamedTuple):
    """One argument. `words`: as they were given; `name`: "" for what is no flag.

    `name` is without dashes, with `-` for `_`. `value`: None where no value follows; such a flag is true, unless it
    needs one.
    """

    words: tuple[str, ...]
    name: str = ""
    value: str | None = None

    @property
    def letter(self) -> bool:
        """Whether it is a flag of one dash and a letter, which stands for a long one that only the program knows."""
        return bool(self.name) and not self.words[0].startswith("--")


def arguments_in(words: Iterable[str]) -> Iterator[Argument]:
    """All arguments, in their order; those after `--` are no flags, and neither is what has no name: `--$(NAME)=1`."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            yield Argument((word,))
            yield from (Argument((each,)) for each in left)
            return
        found = _LONG.fullmatch(word) or _LETTER.fullmatch(word)
        if found is None:
            yield Argument((word,))
            continue
        name, value = found.group(1).replace("_", "-"), found.group(2)
        if value is None and left and _VALUE.match(left[0]):
            value = left.pop(0)
            yield Argument((word, value), name, value)
        else:
            yield Argument((word,), name, value)


def values(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Each long flag's values, in the order of repetition: `true` for one without a value."""
    found: dict[str, tuple[str, ...]] = {}
    for given in arguments_in(words):
        if given.name and not given.letter:
            found[given.name] = (*found.get(given.name, ()), "true" if given.value is None else given.value)
    return found


def last_values(words: Iterable[str]) -> dict[str, str]:
    """Each long flag's value: the last one counts, where a flag isn't a list."""
    return {name: given[-1] for name, given in values(words).items()}


def is_true(value: str) -> bool:
    """Whether a switch with this value is on: Go accepts several spellings. False also for what Go refuses."""
    return value in _TRUE


def number(value: str) -> int | None:
    """A flag's whole number, as strconv.ParseInt reads it with base 0: 0x1A0B, 0o17, 017 (octal, too), 6_443. None for
    what is none.
    """
    if not value.isascii() or value != value.strip():
        return None
    octal = _OCTAL.fullmatch(value)
    try:
        return int(f"{octal.group(1)}0o{octal.group(2)}" if octal else value, 0)
    except ValueError:
        return None


def command_line(container: Mapping[str, Any]) -> tuple[str, ...]:
    """What a container is started with: `command`, then `args`, where they are texts, as its program sees them.

    What comes before a program of the container's own name isn't that program's: `tini -- kube-apiserver --v=2`.
    """
    command, given = (seen_words(_texts(container.get(key)), container) for key in ("command", "args"))
    own = [number for number, word in enumerate(command) if word.rpartition("/")[2] == container.get("name")]
    return (*command[own[0] if own else 0 :], *given)


def manifest_flags(text: str) -> dict[str, str]:
    """The last values of the flags in a static pod's manifest, where no YAML can be read: as JSON, or, as kubeadm
    writes it, a line for each word. {} for another form.
    """
    try:
        pod = json.loads(text)
    except ValueError:
        lists = list(_blocks(text))
    else:
        spec = pod.get("spec") if isinstance(pod, dict) else None
        containers = spec.get("containers") if isinstance(spec, dict) else None
        lists = [[*command_line(each)] for each in containers or () if isinstance(each, dict)]
    found: dict[str, str] = {}
    for words in lists:
        found.update(last_values(words))
    return found


def _blocks(text: str) -> Iterator[list[str]]:
    """The entries of each list; what isn't on lines that follow each other is of another list."""
    block: list[str] = []
    for line in text.splitlines():
        found = _ENTRY.match(line)
        if found:
            block.append(_unquoted(found.group(2)))
        elif line.strip() and not line.lstrip().startswith("#"):
            yield block
            block = []
    yield block


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1 else text


def _texts(given: Any) -> list[str]:
    return [word for word in given if isinstance(word, str)] if isinstance(given, (list, tuple)) else []
