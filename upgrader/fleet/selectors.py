"""Label selectors, as Kubernetes has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["Operator", "Requirement", "Selector"]

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes: `NotIn` is also met without the label."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels


@dataclass(frozen=True)
class Selector:
    """All of the requirements; without any, it selects every cluster."""

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a cluster with these labels is meant."""
        return all(each.met_by(labels) for each in self.requirements)
