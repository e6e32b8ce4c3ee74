"""YAML that would take hours, or the process with it, is refused where it is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from upgrader.model import limited_yaml
from upgrader.model.go_yaml import first_document
from upgrader.model.limited_yaml import check_limits
from upgrader.model.redaction.known_secrets import secrets_in

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
"""Ten billion values in half a kilobyte."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "with its anchors written out"),
        ("a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 1000 + "]", "with its anchors written out"),
        ("[" * 5_000, "nested more than 100 levels"),
        ("".join("  " * level + "- \n" for level in range(200)), "nested more than 100 levels"),
        ("a: &a {b: *a}", "an anchor contains itself"),
        ("a: [", "did not find expected node content"),
        ("a: !!bool maybe", "a value can't be read as its type, bool"),
        ("a: [!!int '']", "a value can't be read as its type, int"),
        ("a: !!int '-'", "a value can't be read as its type, int"),
        ("a: !!float ''", "a value can't be read as its type, float"),
        ("a: !!timestamp soon", "a value can't be read as its type, timestamp"),
        ("a: !!timestamp 2024-13-45", "a value can't be read as its type, timestamp"),
        ("a: !!bool {=: maybe}", "a mapping or list has the tag !!bool"),
    ],
)
def test_what_can_not_be_walked_is_refused(text: str, why: str) -> None:
    """Anchors that multiply values or long texts, nesting, and anchors in themselves; broken YAML is, too.

    So is what PyYAML takes for its own mistake (IndexError, KeyError), which would end the process.
    """
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        check_limits(text)
    assert why in str(caught.value)


def test_what_people_write_passes() -> None:
    """Anchors, several documents and long texts are no reason to refuse."""
    check_limits("a: &a {b: c}\nd: [*a, *a]\n---\na: " + "x" * 100_000)
    check_limits("[!!bool yes, !!int 0x1f, !!int '1_000', !!float 1, !!timestamp 2024-01-02, !!str 1, !vault x]")


def test_secret_that_is_a_bomb_is_masked_as_a_text() -> None:
    """A Secret's value is looked into as YAML, and anyone may have written it."""
    secret = {"kind": "Secret", "stringData": {"file": BOMB, "date": "a: 2024-13-45\nb: c"}}
    assert BOMB in list(secrets_in(secret))


@pytest.mark.parametrize("read", [limited_yaml.load, lambda text: list(limited_yaml.load_all(text)), first_document])
def test_file_of_a_controller_that_libyaml_would_die_of_is_refused(read: Callable[[bytes], object]) -> None:
    """It is an error that can be reported, wherever such a file is read: libyaml itself would end the process."""
    with pytest.raises(yaml.MarkedYAMLError, match="nested more than 100 levels"):
        read(b"[" * 200_000)
