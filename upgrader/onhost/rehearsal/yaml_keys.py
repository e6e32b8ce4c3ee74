"""Whether a YAML file may have a key, told without a parser of YAML, which hosts don't have."""

from __future__ import annotations

import re

__all__ = ["key_pattern"]

_HIDDEN = (
    r"\\[xuU]",  # an escape in a quoted key
    r"(?:^|[\r\x85\u2028\u2029])[\s-]*\?\s|[{\[,]\s*\?",  # `? key`, also in a flow mapping, which needs no blank there
    r"(?:^|[\s{\[,?])\*[\w-]+\s*:",  # `*alias :`; Kubernetes' parser takes it without a blank, too
    r"(?:^|[\s{\[,?-])!(?:[\w-]*!\w|<)|^%TAG",  # `!!binary a21z`, or the same tag by another name
    r"[\0\ufffd]",  # UTF-16
)
"""The forms in which YAML can hide a key. No tool writes them."""


def key_pattern(*keys: str) -> re.Pattern[str]:
    """Finds each place of a text that has one of the keys, or may have it in a form that hides it. A key whose value is
    an empty string doesn't count. Keys are found in upper and lower case: Go's decoder of JSON reads both.

    The text is that of a file in UTF-8, where what isn't UTF-8 is U+FFFD.
    """
    plain = r"\b(?:" + "|".join(map(re.escape, keys)) + r")[\"']?\s*:(?!\s*(?:\"\"|''(?!')))"
    return re.compile("|".join((plain, *_HIDDEN)), re.MULTILINE | re.IGNORECASE)
