"""What a YAML file of the folder may hold, and how one that can't be used is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.values_file import load_values
from upgrader.config.yaml_document import read_any
from upgrader.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int " + "9" * 5000 + "\n", "is not valid YAML"),
        ("a: " + "[" * 5000, "more than 100 levels"),
        ("a: !!binary aGk=\n", "these values can't be passed to Helm"),
        ("a: &a [*a]\n", "contains itself"),
    ],
)
def test_values_that_can_not_be_used_name_their_file(tmp_path: Path, text: str, message: str) -> None:
    """Each is an error of the file, not of upgrader."""
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_values(path)
    assert "values.yaml:" in caught.value.message


def test_dates_are_texts(tmp_path: Path) -> None:
    """As Helm reads them: JSON, in which Helm gets values, has no dates."""
    path = tmp_path / "values.yaml"
    path.write_text("since: 2024-01-01\n")
    assert load_values(path) == {"since": "2024-01-01"}


def test_what_has_a_tag_of_its_own_stays_closed(tmp_path: Path) -> None:
    """Ansible's vaults and Python's objects are left out, whatever they stand for."""
    path = tmp_path / "hosts.yml"
    path.write_text("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  61\nb: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_any(path)
    path.write_text("a: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  61\nb: 1\n")
    assert read_any(path) == {"a": None, "b": 1}
