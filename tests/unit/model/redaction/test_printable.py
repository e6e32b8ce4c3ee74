"""What others wrote can't control a terminal or a CI system."""

from __future__ import annotations

import pytest

from upgrader.model.redaction.printable import mask_secrets, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mError\x1b[0m: bad", "Error: bad"),
        ("a\x1b]0;title\x07b", "a\ufffd]0;title\ufffdb"),
        ("gone\x1b[2K\x1b[1Aover", "gone\ufffd[2K\ufffd[1Aover"),
        ("a\x9b31mb\x7f", "a\ufffd31mb\ufffd"),
        ("one\r\ntwo\rthree", "one\ntwo\ufffdthree"),
        ("left\u202eright", "left\ufffdright"),
        ("half\ud83dof", "half\ufffdof"),
        ("a\tb\nc", "a\tb\nc"),
        ("::error file=x::pwned", ": :error file=x::pwned"),
        ("log\n   ::set-env name=PATH::/evil", "log\n   : :set-env name=PATH::/evil"),
        ("##vso[task.setvariable]x ##[error]y", "## vso[task.setvariable]x ## [error]y"),
        # GitHub's runner trims whatever Unicode calls a space.
        ("\u00a0::error::pwned", "\u00a0: :error::pwned"),
        ("log\n \u3000::set-env name=PATH::/evil", "log\n \u3000: :set-env name=PATH::/evil"),
        # What Python and browsers take for the end of a line, and most readers of a log don't.
        ("log\u2028::error::a\u2029::error::b", "log\ufffd::error::a\ufffd::error::b"),
        ("::1 refused; std::vector", "::1 refused; std::vector"),
        ("pass\x1b[1mword=hunter22", "password=[masked]"),
    ],
)
def test_text_is_made_harmless(text: str, shown: str) -> None:
    """Control characters are visible, commands to CI are broken, and a colour hides no secret from the mask."""
    assert printable(text) == shown
    assert printable(shown) == shown


def test_a_colour_within_a_name_hides_no_secret_where_colours_stay() -> None:
    """Logs in colour have one between a name and its value: a journal and `-o json` mask such a text as well."""
    assert mask_secrets("\x1b[36mpassword\x1b[0m=hunter22 \x1b[36mtoken\x1b[0m=\x1b[1mAbc12345") == (
        "password=[masked] token=[masked]"
    )
