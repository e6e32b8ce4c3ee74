"""Label selectors: `matchLabels` and `matchExpressions`, with Kubernetes' meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["InvalidSelector", "Selector"]


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
            raise InvalidSelector("it is no object")
        labels, expressions = content.get("matchLabels"), content.get("matchExpressions")
        labels, expressions = {} if labels is None else labels, [] if expressions is None else expressions
        if not isinstance(labels, dict) or not isinstance(expressions, list):
            raise InvalidSelector("matchLabels is no object, or matchExpressions is no list")
        found = [(str(key), "In", frozenset({str(value)})) for key, value in labels.items()]
        for each in expressions:
            key, operator = (each.get("key"), each.get("operator")) if isinstance(each, dict) else (None, None)
            values = (each.get("values") or []) if isinstance(each, dict) else []
            if not isinstance(key, str) or operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
                raise InvalidSelector(f"an expression has no key, or the operator {operator!r}")
            if not isinstance(values, list) or bool(values) is not operator.endswith("In"):
                raise InvalidSelector(f"{operator} of {key} has {'no ' if not values else ''}values")
            found.append((key, operator, frozenset(map(str, values))))
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(_holds(labels.get(key), operator, values) for key, operator, values in self.requirements)


def _holds(value: str | None, operator: str, values: frozenset[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None
