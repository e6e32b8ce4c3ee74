"""Label selectors, with Kubernetes' meaning."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.in_cluster.guard.core.selectors import InvalidSelector, Selector


@pytest.mark.parametrize(
    ("content", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchLabels": {"a": "1"}}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, False),
    ],
)
def test_what_is_selected(content: dict[str, Any], labels: dict[str, str], selected: bool) -> None:
    """All requirements must hold; none at all hold for everything."""
    assert Selector.of(content).matches(labels) is selected


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"matchLabels": {f"a-{number}": "1" for number in range(33)}}, "matchLabels has 33 labels, more than 32"),
        ({"matchLabels": {"a" * 318: "1"}}, "a key has 318 characters, more than 317"),
        ({"matchLabels": {"a": "1" * 64}}, "a value of a has 64 characters, more than 63"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}] * 17}, "matchExpressions has 17 entries"),
        ({"matchExpressions": [{"key": "a" * 318, "operator": "Exists"}]}, "a key has 318 characters"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"] * 33}]}, "In of a has 33 values"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1" * 64]}]}, "a value of a has 64"),
    ],
)
def test_a_selector_has_a_size(content: dict[str, Any], why: str) -> None:
    """It is kept for as long as its object is there, and a tenant may create many."""
    with pytest.raises(InvalidSelector, match=why):
        Selector.of(content)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"matchLabels": []},
        {"matchExpressions": {"key": "a"}},
        {"matchExpressions": ["a"]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [{"key": "a", "operator": "Has"}]},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": "1"}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]},
    ],
)
def test_what_is_no_selector(content: object) -> None:
    """Refused, as the API server does."""
    with pytest.raises(InvalidSelector):
        Selector.of(content)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("podseidon.kubewharf.io/protect=true", {"podseidon.kubewharf.io/protect": "true"}, True),
        ("podseidon.kubewharf.io/protect=true", {}, False),
        ("a==1, b!=2", {"a": "1", "b": "3"}, True),
        ("a==1, b!=2", {"a": "1", "b": "2"}, False),
        ("a in (1, 2),b notin (3)", {"a": "2"}, True),
        ("a in (1,2)", {"a": "3"}, False),
        ("a,!b", {"a": ""}, True),
        ("a,!b", {"a": "", "b": ""}, False),
        ("in in (in)", {"in": "in"}, True),
    ],
)
def test_selectors_as_text(text: str, labels: dict[str, str], selected: bool) -> None:
    """As `kubectl --selector` takes them."""
    assert Selector.parse(text).matches(labels) is selected


@pytest.mark.parametrize("text", ["=", "a=b,", ",a", "a in 1", "a in (1", "a in (/)", "a b", "!a=b", "a=b c", "a=ä"])
def test_what_is_no_selector_as_text(text: str) -> None:
    """Refused, and never half of it taken."""
    with pytest.raises(InvalidSelector):
        Selector.parse(text)


def test_a_digest_tells_selectors_apart_by_what_they_select() -> None:
    """Not by the order in which keys and values are written."""
    one: dict[str, Any] = {
        "matchLabels": {"a": "1", "b": "2"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}],
    }
    same: dict[str, Any] = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}],
    }
    assert Selector.of(one).digest == Selector.of(same).digest
    others: list[dict[str, Any]] = [{}, {"matchLabels": {"a": "1"}}, {"matchLabels": {"a": "1", "b": "3"}}]
    others += [{"matchExpressions": [{"key": "a", "operator": each}]} for each in ("Exists", "DoesNotExist")]
    assert len({Selector.of(each).digest for each in [one, *others]}) == 6
