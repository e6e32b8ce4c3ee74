"""Label selectors: `matchLabels` and `matchExpressions`, with Kubernetes' meaning."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

__all__ = [
    "LONGEST_KEY",
    "LONGEST_VALUE",
    "MOST_EXPRESSIONS",
    "MOST_LABELS",
    "MOST_VALUES",
    "InvalidSelector",
    "Selector",
]

MOST_LABELS, MOST_EXPRESSIONS, MOST_VALUES = 32, 16, 32
"""In matchLabels, in matchExpressions, and in each expression. The PodProtectors' definition has the same limits."""
LONGEST_KEY, LONGEST_VALUE = 317, 63
"""Of a label, as Kubernetes allows them: the key may begin with a domain of 253 characters."""

_KEY = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9_.-]*"
_TERM = re.compile(
    rf"\s*(?:(?P<not>!?)\s*(?P<alone>{_KEY})|(?P<key>{_KEY})\s*(?P<equals>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<of>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))\s*(?:,|$)"
)


class InvalidSelector(ValueError):
    """Why it is no label selector."""


@dataclass(frozen=True)
class Selector:
    """Requirements, all of which must hold: a label, an operator, values. None at all hold for every object."""

    requirements: tuple[tuple[str, str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, content: object) -> Selector:
        """From the API's object; raises `InvalidSelector`. Who has none at all (null) selects nothing: ask before."""
        if not isinstance(content, dict):
            raise InvalidSelector("it isn't an object")
        labels, expressions = content.get("matchLabels"), content.get("matchExpressions")
        labels, expressions = {} if labels is None else labels, [] if expressions is None else expressions
        if not isinstance(labels, dict) or not isinstance(expressions, list):
            raise InvalidSelector("matchLabels isn't an object, or matchExpressions isn't a list")
        if len(labels) > MOST_LABELS:
            raise InvalidSelector(f"matchLabels has {len(labels)} labels, more than {MOST_LABELS}")
        if len(expressions) > MOST_EXPRESSIONS:
            raise InvalidSelector(f"matchExpressions has {len(expressions)} entries, more than {MOST_EXPRESSIONS}")
        found = [_sized(str(key), "In", (str(value),)) for key, value in labels.items()]
        for each in expressions:
            key, operator = (each.get("key"), each.get("operator")) if isinstance(each, dict) else (None, None)
            values = (each.get("values") or []) if isinstance(each, dict) else []
            if not isinstance(key, str) or operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
                raise InvalidSelector(f"an expression has no key, or the invalid operator {operator!r}")
            if not isinstance(values, list) or bool(values) is not operator.endswith("In"):
                raise InvalidSelector(f"{operator} of {key} has {'no ' if not values else ''}values")
            found.append(_sized(key, operator, tuple(map(str, values))))
        return cls(tuple(found))

    @classmethod
    def parse(cls, text: str) -> Selector:
        """From what `kubectl --selector` takes: `a=b,c!=d,e in (f,g),!h`. Empty: all. Raises `InvalidSelector`."""
        found, place = [], 0
        while place < len(text):
            term = _TERM.match(text, place)
            if term is None or (term.end() == len(text) and text.endswith(",")):
                raise InvalidSelector(f"{text[place:]!r} is not a requirement such as key=value or key in (a,b)")
            place = term.end()
            if term["alone"]:
                found.append((term["alone"], "DoesNotExist" if term["not"] else "Exists", frozenset[str]()))
            elif term["key"]:
                operator = "NotIn" if term["equals"] == "!=" else "In"
                found.append((term["key"], operator, frozenset({term["value"]})))
            else:
                values = frozenset(value.strip() for value in term["values"].split(","))
                if not all(re.fullmatch(_VALUE, value) for value in values):
                    raise InvalidSelector(f"{term['values']!r} is not a list of valid label values")
                found.append((term["of"], "NotIn" if term["set"] == "notin" else "In", values))
        return cls(tuple(found))

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits: the same for the same requirements, in whatever order they are written."""
        found = sorted({(key, operator, *sorted(values)) for key, operator, values in self.requirements})
        return hashlib.sha256(repr(found).encode()).hexdigest()[:16]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(_holds(labels.get(key), operator, values) for key, operator, values in self.requirements)


def _sized(key: str, operator: str, values: tuple[str, ...]) -> tuple[str, str, frozenset[str]]:
    """A requirement; raises `InvalidSelector` if it is larger than any that can hold."""
    if len(key) > LONGEST_KEY:
        raise InvalidSelector(f"a key has {len(key)} characters, more than {LONGEST_KEY}")
    if len(values) > MOST_VALUES:
        raise InvalidSelector(f"{operator} of {key} has {len(values)} values, more than {MOST_VALUES}")
    if (longest := max(map(len, values), default=0)) > LONGEST_VALUE:
        raise InvalidSelector(f"a value of {key} has {longest} characters, more than {LONGEST_VALUE}")
    return key, operator, frozenset(values)


def _holds(value: str | None, operator: str, values: frozenset[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None
