"""The wire format of the container runtime's answers, read and written by hand."""

from __future__ import annotations

import pytest

from upgrader.onhost.node.protobuf import Message, encode


def test_what_is_written_is_read() -> None:
    """Strings, however long, and messages within messages come back as they were."""
    long = "x" * 300
    read = Message(encode(1, long) + encode(2, encode(1, "within")) + encode(200, b"far"))
    assert read.text(1) == long
    assert read.message(2).text(1) == "within"
    assert read.text(200) == "far"


def test_a_field_that_is_not_there_has_its_default() -> None:
    """proto3 leaves out empty values: a missing field is no error, and can be told from one that is there."""
    read = Message(encode(3, ""))
    assert (read.text(1), read.integer(1), read.messages(1), read.map(1)) == ("", 0, [], {})
    assert 3 in read and 1 not in read


def test_repeated_fields() -> None:
    """A list keeps its order; where one value is expected, the last one counts."""
    read = Message(encode(3, "first") + encode(3, "last"))
    assert read.texts(3) == ["first", "last"]
    assert read.text(3) == "last"


@pytest.mark.parametrize(
    ("data", "value"), [(b"\x08\x96\x01", 150), (b"\x08" + b"\xff" * 9 + b"\x01", -1), (b"\x08\x00", 0)]
)
def test_numbers_are_signed(data: bytes, value: int) -> None:
    """A container that was killed may have a negative exit code."""
    assert Message(data).integer(1) == value


def test_fields_of_later_versions_are_passed_over() -> None:
    """Fixed-width numbers, which the runtime's answers hardly use, don't disturb what is read around them."""
    fixed = b"\x49" + b"\x01" * 8 + b"\x55" + b"\x02" * 4
    assert Message(encode(1, "a") + fixed + encode(2, "b")).text(2) == "b"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x49\x01\x01", "field 9 is truncated"),
        (b"\x55\x01", "field 10 is truncated"),
        (b"\x0a\x02a", "field 1 is truncated"),
        (b"\x0a", "a number is truncated"),
        (b"\x0c", "wire type 4 in field 1"),
        (b"\x08" + b"\xff" * 11, "a number is too long"),
    ],
)
def test_a_damaged_message_is_an_error(data: bytes, says: str) -> None:
    """Half a message never reads as a whole one with less in it."""
    with pytest.raises(ValueError, match=says):
        Message(data)


def test_a_field_of_another_kind_is_an_error() -> None:
    """An answer to another question isn't taken for one to ours."""
    with pytest.raises(ValueError, match="a message where a number was expected"):
        Message(encode(1, "text")).integer(1)
    for read in (Message.text, Message.texts, Message.message, Message.messages, Message.map):
        with pytest.raises(ValueError, match="a number where a message was expected"):
            read(Message(b"\x08\x01"), 1)
