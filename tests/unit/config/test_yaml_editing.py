"""Values that a command sets in a file that a person wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from upgrader.config.yaml_editing import with_changes, with_values
from upgrader.errors import ConfigError

NEW = {"repository": "r.example.com/a", "digest": "sha256:ab"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'image:\n  repository: "r.example.com/a"\n  digest: "sha256:ab"\n'),
        ("# mine\nkeep: 3", '# mine\nkeep: 3\nimage:\n  repository: "r.example.com/a"\n  digest: "sha256:ab"\n'),
        (
            "image:\n    # where it is\n    repository: old  # ours\n    tag: x\nkeep: 3\n",
            (
                'image:\n    # where it is\n    digest: "sha256:ab"\n    repository: "r.example.com/a"  # ours\n'
                "    tag: x\nkeep: 3\n"
            ),
        ),
        ("image: {tag: x, digest: ''}\n", 'image: {repository: "r.example.com/a", tag: x, digest: "sha256:ab"}\n'),
        (
            "image:\n  digest:\n  repository: 'ö'\nkeep: 3\n",
            'image:\n  digest: "sha256:ab"\n  repository: "r.example.com/a"\nkeep: 3\n',
        ),
    ],
    ids=["empty", "no section", "block", "flow", "empty value"],
)
def test_all_else_stays_as_it_is(tmp_path: Path, before: str, after: str) -> None:
    """Comments, order, indentation and other keys are kept, in block and flow style; what YAML reads has the values."""
    path = tmp_path / "values.yaml"
    path.write_text(before)
    text = with_values(path, "image", NEW)
    assert text == after
    read, was = yaml.safe_load(text), yaml.safe_load(before) or {}
    assert {key: value for key, value in read.items() if key != "image"} == {
        key: value for key, value in was.items() if key != "image"
    }
    assert read["image"] == {**was.get("image", {}), **NEW}


def test_a_file_that_does_not_exist_begins_with_the_values(tmp_path: Path) -> None:
    """It is then made with them."""
    assert yaml.safe_load(with_values(tmp_path / "none.yaml", "image", NEW)) == {"image": NEW}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keep: 3\nimage:\n", "values.yaml:2: `image` isn't a list"),
        ("image: text\n", "values.yaml:1: `image` isn't a list"),
        ("image: {}\n", "values.yaml:1: `image` isn't a list"),
        ("a: &it {tag: x}\nimage: *it\n", "values.yaml:2: `image` isn't a list"),
        ("a: &it other\nimage:\n  repository: *it\n", "values.yaml:3: `repository` is a YAML alias or anchor"),
        ("image:\n  repository: &it r\nkeep: *it\n", "values.yaml:2: `repository` is a YAML alias or anchor"),
        ("a: 1\na: 2\n", "values.yaml:2: key 'a' is already on line 1"),
        ("- image\n", "values.yaml:1: expected `key: value` lines"),
    ],
)
def test_what_can_not_be_set_in_place_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """An alias would change the place that it comes from; the message has file and line."""
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        with_values(path, "image", NEW)
    assert said in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "{}\n",
        "{keep: 3}\n",
        "  keep: 3\n",
        "keep: 3\n...\n",
        "keep: |+\n  text\n\n",
        "image:\n  digest: >-\n    sha256:x\n  tag: x\n",
        "image:\n  ? digest\n  : x\n",
    ],
)
def test_what_yaml_would_read_otherwise_is_refused(tmp_path: Path, text: str) -> None:
    """A file of `{}`, as many begin, would be no YAML with lines behind it; nor may another value change."""
    path = tmp_path / "values.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="can't be set in place") as caught:
        with_values(path, "image", NEW)
    assert "image: {repository, digest}" in caught.value.remedy


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "replicas: 3\nendpoints:\n  addresses: []\n"),
        ("# one\nreplicas: 1  # for now\nport: 6443\nendpoints: {addresses: [10.0.0.1]}", None),
        (
            "endpoints:\n  addresses:\n    # ours\n    - 10.0.0.1\n# next\nreplicas: 1 # for now\n",
            "endpoints:\n  addresses: []\n# next\nreplicas: 3 # for now\n",
        ),
        ("port: 6443", "port: 6443\nreplicas: 3\nendpoints:\n  addresses: []\n"),
    ],
    ids=["empty", "flow", "block", "neither"],
)
def test_numbers_and_lists_are_set_in_place(tmp_path: Path, before: str, after: str | None) -> None:
    """A number at the margin, and a list below a key; comments beside and behind them stay."""
    path = tmp_path / "values.yaml"
    path.write_text(before)
    text = with_changes(path, {"replicas": 3, "endpoints": {"addresses": []}})
    assert text == (after or "# one\nreplicas: 3  # for now\nport: 6443\nendpoints: {addresses: []}")


def test_a_number_that_cannot_be_set_is_named(tmp_path: Path) -> None:
    """A file in braces has no line of its own to write below."""
    path = tmp_path / "values.yaml"
    path.write_text("{port: 6443}\n")
    with pytest.raises(ConfigError, match="`replicas` can't be set in place") as caught:
        with_changes(path, {"replicas": 3})
    assert "Write `replicas: 3` into it manually" in caught.value.remedy
