"""The indexes find what a look at every selector, or at every object, would find."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.in_cluster.guard.core.label_index import LabelIndex, SelectorIndex
from upgrader.in_cluster.guard.core.selectors import Selector

_KEYS, _VALUES = [f"k{number}" for number in range(12)], ["", "a", "b", "c"]


@dataclass(frozen=True)
class _Labelled:
    labels: Mapping[str, str] = field(default_factory=dict)


def _selector(chance: random.Random) -> Selector:
    operators = {"In": 3, "NotIn": 1, "Exists": 1, "DoesNotExist": 1}
    expressions: list[dict[str, Any]] = []
    for key in chance.sample(_KEYS, chance.randrange(4)):
        (operator,) = chance.choices(list(operators), list(operators.values()))
        values = chance.sample(_VALUES, chance.randint(1, 2)) if operator.endswith("In") else []
        expressions.append({"key": key, "operator": operator, "values": values})
    return Selector.of({"matchExpressions": expressions})


def _labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(_VALUES) for key in chance.sample(_KEYS, chance.randrange(8))}


def test_no_selector_that_matches_is_left_out() -> None:
    """Whatever is added, replaced and removed: what the index doesn't name matches nothing, so that no protector is
    left unasked, and what was removed isn't named.
    """
    chance = random.Random(7)
    index, there = SelectorIndex[int](), dict[int, list[Selector]]()
    for _ in range(3000):
        name = chance.randrange(40)
        if name in there:
            index.remove(name, there.pop(name))
        if chance.random() < 0.7:
            there[name] = [_selector(chance) for _ in range(chance.randint(1, 2))]
            index.add(name, there[name])
        labels = _labels(chance)
        possible = list(index.possible(labels))
        matching = {each for each, selectors in there.items() if any(s.matches(labels) for s in selectors)}
        assert matching <= set(possible) <= there.keys() and len(possible) == len(set(possible))


def test_objects_are_found_as_by_asking_each() -> None:
    """Whatever is put, replaced and dropped, and with more labels in selectors than objects are kept by."""
    chance = random.Random(7)
    index, there = LabelIndex[_Labelled](), dict[str, _Labelled]()
    for _ in range(3000):
        uid = str(chance.randrange(40))
        if chance.random() < 0.7:
            there[uid] = _Labelled(_labels(chance))
            index.put(uid, there[uid])
        else:
            there.pop(uid, None)
            index.drop(uid)
        selector = _selector(chance)
        assert index.all == there
        assert index.matching(selector) == {u: each for u, each in there.items() if selector.matches(each.labels)}


def test_a_label_that_all_have_finds_nothing_by_itself() -> None:
    """Of several labels that a selector requires, that one finds it that the fewest others require."""
    index = SelectorIndex[int]()
    for number in range(500):
        labels = {"environment": "production", "app": f"web-{number}", "tier": "front"}
        index.add(number, [Selector.of({"matchLabels": labels})])
    assert len(list(index.possible({"environment": "production", "app": "web-7", "tier": "front"}))) <= 3
