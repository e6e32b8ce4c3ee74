"""The regular expression for partitions: RE2's meaning, and no name that takes Python for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upgrader.in_cluster.guard.core.partitions import InvalidRegex, PartitionRegex


@pytest.mark.parametrize(
    ("text", "group", "name", "partition"),
    [
        ("[a-z]+-zone-[a-z]-([0-9]+)", None, "web-zone-a-12", "12"),
        ("[a-z]+-zone-[a-z]-([0-9]+)", 1, "web-zone-a-12", "12"),
        ("ingester(-foo)?-zone-[a-z]-([0-9]+)", 2, "ingester-zone-a-1", "1"),
        ("ingester(-foo)?-zone-[a-z]-([0-9]+)", 2, "ingester-foo-zone-a-1", "1"),
        ("ingester(-foo)?-zone-[a-z]-([0-9]+)", 1, "ingester-zone-a-1", None),
        ("web-([0-9]+)", None, "web-1-x", None),
        ("web-([0-9]+)", None, "my-web-1", None),
        ("web-a-([0-9])|web-b-(?:[0-9])", None, "web-b-3", None),
        (r"[a-z\-]+-([[:digit:]]+)", None, "web-zone-a-7", "7"),
        (r"(?P<zone>[a-z]+)-(?:x-)?\d", None, "web-x-7", "web"),
        (r"(?i)WEB-.*?([0-9]{1,3})", None, "web-x77", "77"),
        ("(.*)", None, "a" * 64, None),
        ("[a-z0-9-]+-zone-(?:a|b|c|d)-(?:r-)?[0-9]*?([0-9]{1,3})", None, "ingester-zone-b-12", "12"),
        ("(?:ingester|store|compactor)(?:-[a-z]+)?-zone-[abc]-([0-9]+)", None, "store-zone-a-3", "3"),
    ],
)
def test_a_partition_is_a_group_of_the_whole_name(
    text: str, group: int | None, name: str, partition: str | None
) -> None:
    """Anchored at both ends, its only group or the one that is named."""
    assert PartitionRegex.parse(text, group).partition(name) == partition


@pytest.mark.parametrize(
    ("text", "group", "why"),
    [
        ("(a bad regex[", None, "unterminated"),
        ("web-[0-9]+", None, "no group"),
        ("web-([a-z])-([0-9]+)", None, "2 groups"),
        ("web-([a-z])-([0-9]+)", 3, "2 groups"),
        ("web-([0-9]+)", 0, "podNameRegexGroup is 0"),
        ("(a+)+", None, "repeats a group"),
        ("((?:a|b)c)*", 1, "repeats a group"),
        ("(a?){40}", None, "repeats a group"),
        ("(a)++", None, "repetition of a repetition"),
        ("(?=a)(b)", None, "lookaround"),
        ("(?<!a)(b)", None, "lookaround"),
        (r"(a)\1", None, "backreference"),
        ("(?x)(a)(?:a+) *[xy]", None, "unsupported flags: (?x)"),
        ("(a)(?ix:(?:a+) *)[xy]", None, "unsupported flags: (?ix:"),
        ("(a)(?:aa?){,40}[xy]", None, "it has {,40}"),
        ("(.*).*.*.*x", None, "766,480 ways"),
        ("(a)" + "(?:|a)" * 40 + "[xy]", None, "countless ways"),
        ("(a)" + "(?:a|aa)" * 25 + "[xy]", None, "33,554,432 ways"),
        ("(a)" + "a?" * 30 + "[xy]", None, "1,073,741,824 ways"),
        ("(a)" + "a{0,9}" * 6 + "[xy]", None, "1,000,000 ways"),
        ("([[:word:]])", None, "character class"),
        (r"(\pL)", None, "bad escape"),
        ("(" + "a" * 300 + ")", None, "characters"),
        ("(a{99999999999})", None, "too large"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, group: int | None, why: str) -> None:
    """With the reason: no group or too many, what RE2 hasn't, what takes for ever."""
    with pytest.raises(InvalidRegex, match=re.escape(why)):
        PartitionRegex.parse(text, group)


def test_a_set_of_characters_has_no_operators() -> None:
    """What Python warns of is a character, as in RE2: `||` is no union."""
    regex = PartitionRegex.parse("([a||b&&c]+)-0", None)
    assert regex.partition("a|b&c-0") == "a|b&c" and regex.partition("d-0") is None


@given(st.text("ab-(|)*+?{2,}[]\\:^.0", max_size=24), st.text("ab-0", max_size=30))
def test_whatever_is_written_is_refused_or_answers(text: str, name: str) -> None:
    """Nothing else is raised, and no answer takes longer than a test may."""
    try:
        regex = PartitionRegex.parse(text, None)
    except InvalidRegex:
        return
    assert regex.partition(name) != ""
