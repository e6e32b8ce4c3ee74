"""Label selectors, with Kubernetes' meaning."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.guard.core.selectors import InvalidSelector, Selector


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
