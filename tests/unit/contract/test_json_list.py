"""Lists of the API server, read while they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from testkit.memory import TracedMemory
from upgrader.contract.json_list import JsonList


def read(chunks: Iterable[bytes], reader: JsonList) -> list[dict[str, Any]]:
    """All items."""
    return [*(item for chunk in chunks for item in reader.feed(chunk)), *reader.end()]


def of(whole: bytes, size: int) -> Iterable[bytes]:
    """In chunks of so many bytes."""
    return (whole[at : at + size] for at in range(0, len(whole), size))


ITEMS = [{"metadata": {"name": "ä-😀]}", "n": [1, 2.5, None, {"}": "[,"}]}}, {}, {"a": '\\"'}]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "rest",
    [
        {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "x"}, "items": ITEMS},
        {"apiVersion": "v1", "items": ITEMS, "kind": "PodList", "metadata": {"resourceVersion": "7"}},
        {"items": [], "metadata": {}},
        {"items": None, "metadata": {}},
        {"metadata": {}},
    ],
    ids=["built-in", "custom", "none", "null", "without"],
)
def test_it_reads_what_a_whole_parser_reads(rest: dict[str, Any], size: int) -> None:
    """Wherever the chunks end, also within a character, and in whatever order the entries are."""
    for text in (json.dumps(rest), json.dumps(rest, ensure_ascii=False, indent=1) + "\n"):
        reader = JsonList()
        assert read(of(text.encode(), size), reader) == (rest.get("items") or [])
        assert {**reader.rest, "items": None} == {**rest, "items": None}


@pytest.mark.parametrize(
    "whole",
    [b"", b"[]", b"{", b'{"items":[{"a":1}', b'{"items":[{"a":1}]', b'{"items":[1]}', b'{"items":[{"a":}]}', b"\xff{}"],
)
def test_what_is_no_list_is_no_empty_list(whole: bytes) -> None:
    """An answer that ends too soon mustn't look like a cluster without pods."""
    with pytest.raises(ValueError):
        read([whole], JsonList())


def test_a_page_of_large_pods_takes_the_memory_of_one() -> None:
    """Sixty-four pods of 256 KiB, as a tenant may create 500 of 1.5 MiB."""
    pod = json.dumps({"spec": {"env": "<" * (256 << 10)}}).encode()

    def page() -> Iterable[bytes]:
        yield b'{"metadata":{},"items":['
        for number in range(64):
            yield from of(pod if number == 0 else b"," + pod, 64 << 10)
        yield b"]}"

    reader, found = JsonList(), 0
    with TracedMemory() as memory:
        for chunk in page():
            found += sum(1 for _ in reader.feed(chunk))
        found += sum(1 for _ in reader.end())
        most = memory.most
    assert found == 64 and most < 8 * len(pod), "where all together have 64 times as much"


def test_an_object_that_has_no_end_is_not_waited_for() -> None:
    """Its size is limited, and it is looked at so few times that its size decides how long that takes."""
    tries = 0

    class Counting(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            nonlocal tries
            tries += 1
            return super().raw_decode(s, idx)

    reader = JsonList(most=1 << 20)
    reader._json = Counting()
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        read((b'{"items":[{"a":"', *[b"x" * 1024] * 2000), reader)
    assert tries < 75, "one for each of the first 64 KiB, then for each twice as much"
