"""The words that don't come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.words import IN_MESSAGES, INSTEAD, LEFT, count, found, shrunk, too_many


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Whoever\nreads it", "whoever"),
        ("a webhook of guard's.", "of guard's"),
        ("one of kubeadm's that stays", "of guard's"),
        ("it is mended", "mend"),
        ("the file was put\n  back", "put back"),
        ("there is no way back", "the way back"),
        ("what stood in the way", "stand in the way"),
        ("where they don't", "where it doesn't"),
    ],
)
def test_each_form_is_found(text: str, word: str) -> None:
    """In any case, and where a line ends between two words."""
    assert count(text) == {word: 1}


def test_others_are_not_taken_for_them() -> None:
    """Parts of words, and a plain genitive."""
    assert not count("We recommend amendments to one of guard's webhooks, and he put the backup there.")


def test_what_commands_print_is_no_prose(tmp_path: Path) -> None:
    """A page's blocks and inline code quote; Python's strings and docstrings count, its names and comments don't."""
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("Nobody.\n\n```text\nwhoever\n```\n\n- as in\n  ```console\n  $ mend\n  ```\n  `put back`\n")
    module.write_text('"""Whoever calls."""\nnobody = f"nobody but {1}"  # astray\n')
    assert found(page) == {"nobody": 1} and found(module) == {"whoever": 1, "nobody": 1}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("its user may not list pods", "may not"),
        ("which it may no longer read", "may not"),
        ("the run has begun", "begun"),
        ("it is written anew", "anew"),
        ("whether it installs updates is unknown", "is unknown"),
        ("whether {} still exists can't be read", "is unknown"),
        ("its kubeconfig leads to another cluster", "kubeconfig leads to"),
        ("the certificate has expired meanwhile", "meanwhile"),
        ("the backup is of another cluster", "is of"),
        ("it runs another minor version than the target", "another … than"),
        ("Add it, then run this again.", "run this again"),
        ("Fix it, then run again.", "run this again"),
        ("Omit --on, to rehearse on a controller.", "Omit …, to"),
        ("It is refused, also on a dry run.", ", also in"),
    ],
)
def test_each_word_of_messages_is_found(text: str, word: str) -> None:
    """In any form."""
    assert count(text, IN_MESSAGES) == {word: 1}


def test_plain_sentences_of_messages_pass() -> None:
    """A field of a template, a possibility with both its sides, and the same facts in their usual order."""
    text = (
        "`step.begun` may or may not be set, and it is unknown whether it was. It can't be read, which is fine. "
        "Meanwhile, another one runs; meanwhile it waits: a URL that is of the form https://HOST. The pods run again, "
        "and also in another zone."
    )
    assert not count(text, IN_MESSAGES)


def test_words_of_messages_are_allowed_in_docstrings(tmp_path: Path) -> None:
    """Only what users read counts: no key of one word, no assertion's remark."""
    module = tmp_path / "module.py"
    module.write_text('"""What has begun."""\nkey = {"begun": f"{key} may\\nnot"}\nassert key, "it may not be"\n')
    assert found(module) == {"may not": 1}


def test_code_may_go_on_in_the_next_line(tmp_path: Path) -> None:
    """What stands between two pieces of code isn't taken for code, and a lone mark hides no other paragraph."""
    page = tmp_path / "page.md"
    page.write_text("`run\n--skip` goes on in spite of `it`.\n\na lone ` mark\n\nnobody `x`\n")
    assert found(page) == {"in spite of": 1, "nobody": 1}


def test_more_than_is_left_is_an_error() -> None:
    """It says where, how many may be, and what to write."""
    seen = {"docs/a.md": {"nobody": 2}, "upgrader/app": {"mend": 1}}
    (line,) = too_many(seen, {"docs/a.md": {"nobody": 1}, "upgrader/app": {"mend": 1}})
    assert line == f'docs/a.md: "nobody" 2 times, 1 allowed: {INSTEAD["nobody"]}'


def test_what_is_left_only_shrinks() -> None:
    """A word that came back isn't allowed by asking again."""
    left = {"upgrader/app": {"mend": 3, "nobody": 1}, "docs/a.md": {"nobody": 1}}
    assert shrunk({"upgrader/app": {"mend": 1, "nobody": 5, "bait": 1}}, left) == {
        "upgrader/app": {"mend": 1, "nobody": 1}
    }


def test_pages_for_users_have_none() -> None:
    """Except those that `words_left.json` names: their words are known by it."""
    left = [each for each in json.loads(LEFT.read_text()) if each.startswith(("docs/", "README", "C"))]
    assert set(left) <= {
        "docs/benchmarks/guard.md", "docs/guard-comparison.md", "docs/guard-tutorials.md", "docs/guard.md",
        "docs/reliability.md",
    }  # fmt: skip
