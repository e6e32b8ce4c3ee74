"""Selectors by the labels that they require, and objects by the labels that they have: who looks for those that match
asks the few that may, and not each of thousands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from upgrader.in_cluster.guard.core.selectors import Selector

__all__ = ["LabelIndex", "SelectorIndex"]

_MOST_KEYS = 8
"""Keys of labels by which objects are kept. Selectors of one workload have three; each costs time and memory."""


class _Labelled(Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...


Name = TypeVar("Name", bound=Hashable)
Found = TypeVar("Found", bound=_Labelled)


class SelectorIndex(Generic[Name]):
    """Selectors, by whatever names them. One that requires no value is asked about every object."""

    def __init__(self) -> None:
        self._by_value: dict[str, dict[str, dict[Name, None]]] = {}
        self._others: dict[Name, None] = {}

    def add(self, name: Name, selectors: Iterable[Selector]) -> None:
        """A name of one or several selectors, which isn't there yet."""
        for each in selectors:
            if (found := self._rarest(each)) is None:
                self._others[name] = None
                continue
            key, values = found
            for value in values:
                self._by_value.setdefault(key, {}).setdefault(value, {})[name] = None

    def remove(self, name: Name, selectors: Iterable[Selector]) -> None:
        """The same name, with the same selectors as it was added with."""
        self._others.pop(name, None)
        for key, values in [required for each in selectors for required in _required(each)]:
            by_value = self._by_value.get(key, {})
            for value in values & by_value.keys():
                by_value[value].pop(name, None)
                if not by_value[value]:
                    del by_value[value]
            if not by_value:
                self._by_value.pop(key, None)

    def possible(self, labels: Mapping[str, str]) -> Iterable[Name]:
        """The names of which a selector may match these labels, each once; those of all others don't."""
        found = dict(self._others)
        for key, by_value in self._by_value.items():
            if (value := labels.get(key)) is not None:
                found |= by_value.get(value, {})
        return found

    def _rarest(self, selector: Selector) -> tuple[str, frozenset[str]] | None:
        """Of what it requires, what the fewest others are found by: many may require the same environment."""

        def others(required: tuple[str, frozenset[str]]) -> int:
            by_value = self._by_value.get(required[0], {})
            return sum(len(by_value.get(value, ())) for value in required[1])

        return min(_required(selector), key=others, default=None)


class LabelIndex(Generic[Found]):
    """Objects, by UID, and by the values of those labels that selectors have asked for."""

    def __init__(self) -> None:
        self.all: dict[str, Found] = {}
        self._by_value: dict[str, dict[str, dict[str, Found]]] = {}

    def put(self, uid: str, found: Found) -> None:
        """An object as it is now."""
        self.drop(uid)
        self.all[uid] = found
        for key in self._by_value:
            self._file(key, uid, found)

    def drop(self, uid: str) -> None:
        """Forget an object; one that isn't there is none."""
        before = self.all.pop(uid, None)
        if before is None:
            return
        for key, by_value in self._by_value.items():
            value = before.labels.get(key)
            if value is not None:
                del by_value[value][uid]
                if not by_value[value]:
                    del by_value[value]

    def matching(self, selector: Selector) -> dict[str, Found]:
        """The objects that a selector matches, by UID."""
        fewest = self.all
        for key, values in _required(selector):
            if (by_value := self._known(key)) is not None:
                these = [by_value[value] for value in values if value in by_value]
                if sum(map(len, these)) < len(fewest):
                    fewest = {uid: found for each in these for uid, found in each.items()}
        return {uid: found for uid, found in fewest.items() if selector.matches(found.labels)}

    def _known(self, key: str) -> Mapping[str, Mapping[str, Found]] | None:
        """The objects by their values of this label; None where they are kept by enough labels already."""
        if key not in self._by_value and len(self._by_value) < _MOST_KEYS:
            self._by_value[key] = {}
            for uid, found in self.all.items():
                self._file(key, uid, found)
        return self._by_value.get(key)

    def _file(self, key: str, uid: str, found: Found) -> None:
        if (value := found.labels.get(key)) is not None:
            self._by_value[key].setdefault(value, {})[uid] = found


def _required(selector: Selector) -> list[tuple[str, frozenset[str]]]:
    """The labels that each matching object has, with one of these values."""
    return [(key, values) for key, operator, values in selector.requirements if operator == "In"]
