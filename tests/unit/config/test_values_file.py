"""Helm values, read as Helm reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upgrader.config.values_file import load_values
from upgrader.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("n", False),
        ("Y", True),
        ("off", False),
        ("no", False),
        ("1e1", 10.0),
        ("1.5e3", 1500.0),
        ("08", 8.0),
        ("0o644", 420),
        ("0644", 420),
        ("0x1f", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("0", 0),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("=", "="),
        ("nothing", "nothing"),
        ("1.2.3", "1.2.3"),
        ("10.96.0.0/12", "10.96.0.0/12"),
        ("0o8", "0o8"),
        ('"n"', "n"),
        ("~", None),
    ],
)
def test_values_are_what_helm_takes_them_for(tmp_path: Path, written: str, value: Any) -> None:
    """A feature that `n` switches off would be on, were it the text that other readers of YAML take it for."""
    file = tmp_path / "values.yaml"
    file.write_text(f"key: {written}\n")
    found = load_values(file)["key"]
    assert (found, type(found)) == (value, type(value))


def test_a_closing_mark_is_no_second_document(tmp_path: Path) -> None:
    """Editors and generators end files with it; of another document Helm would read nothing, so that is refused."""
    file = tmp_path / "values.yaml"
    file.write_text("---\nreplicas: 3\n---\n# the end\n")
    assert load_values(file) == {"replicas": 3}
    file.write_text("replicas: 3\n---\nreplicas: 5\n")
    with pytest.raises(ConfigError, match=r"values.yaml:3: is not valid YAML: but found another document"):
        load_values(file)
