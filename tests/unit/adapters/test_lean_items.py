"""What is kept of nodes, of which a thousand report the same images."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

from upgrader.adapters.lean_items import lean_items

IMAGES = 50


def node(name: str, *, extra: str = "") -> dict[str, Any]:
    """As an API server answers; `extra`: one more name of its first image."""
    names = [[f"r/i@sha256:{n}", f"r/i:{n}"] for n in range(IMAGES)]
    names[0] += [extra] if extra else []
    images = [{"names": each, "sizeBytes": n} for n, each in enumerate(names)]
    found: dict[str, Any] = json.loads(json.dumps({"metadata": {"name": name}, "status": {"images": images}}))
    return found


def calls(item: dict[str, Any], lean: Any) -> int:
    """How many calls of Python it takes to make it smaller."""
    count = 0

    def seen(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        lean(item)
    finally:
        sys.setprofile(None)
    return count


def test_images_that_another_node_has_are_not_gone_through_again() -> None:
    """They are most of a node, and of a thousand nodes most of what a run reads: one look at each is enough."""
    lean = lean_items()
    lean(node("one"))
    assert calls(node("two"), lean) < 2 * IMAGES


def test_nodes_keep_their_own_images() -> None:
    """Alike images are one object, and a name that only one node has stays there alone; so do odd reports."""
    lean = lean_items()
    named = node("one"), node("two", extra="mirror/i:0"), node("three")
    one, two, three = (lean(each) for each in named)
    assert [one, two, three] == [node("one"), node("two", extra="mirror/i:0"), node("three")]
    assert one["status"]["images"][1] is three["status"]["images"][1]
    odd: Any
    for odd in (None, {}, [{}], [{"names": None}], [{"names": []}], ["text"]):
        assert lean({"metadata": {}, "status": {"images": odd}})["status"].get("images") == odd
