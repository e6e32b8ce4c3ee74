"""Prometheus' text format, as its textfile collector and the Pushgateway read it.

Twenty lines, where the official client would be one more package on every runner: it is made for processes that are
scraped, keeps a registry for the whole process, and its `push_to_gateway` has neither one deadline for all of a request
nor a way to refuse redirects. Tests read what is written here with that client's own parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["Family", "Sample", "rendered"]

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True)
class Sample:
    """One series with its value; times are seconds since 1970."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Family:
    """A metric with all its series. `help` has no line's end and no backslash."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: tuple[Sample, ...]


def rendered(families: Iterable[Family]) -> bytes:
    """The families that have series. Invalid Unicode, which a journal may contain, becomes a `?`."""
    lines = (line for family in families if family.samples for line in _lines(family))
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for sample in family.samples:
        labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels.items())
        yield f"{family.name}{{{labels}}} {sample.value!r}"
