"""A chart that doesn't render: the files, lines and keys of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.refused_chart import with_files
from upgrader.errors import ChartRefused

SCHEMA = (
    "Helm failed on release 'web': values don't meet the specifications of the schema(s) in the following chart(s):\n"
)
REMEDY = "See: helm template web charts/web --values FILE"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chart with a subchart, and values of both."""
    (tmp_path / "charts/web/templates").mkdir(parents=True)
    (tmp_path / "charts/web/templates/map.yaml").write_text("")
    (tmp_path / "values.yaml").write_text("replicas: lots\nports:\n  - a/b: 1\ncache:\n  size: big\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(folder: Path, text: str, values: str = "values.yaml") -> ChartRefused:
    """What is said where Helm says this."""
    return with_files(ChartRefused(text, remedy=REMEDY), "web", folder / "charts/web", folder / values)


@pytest.mark.parametrize(
    ("helm", "line"),
    [
        ("web:\n- at '/replicas': got string, want integer", "values.yaml:1: 'replicas': got string, want integer"),
        ("web:\n- at '/ports/0/a~1b': got number", "values.yaml:3: 'ports.0.a/b': got number"),
        ("web:\n- at '': additional properties 'cache', 'x' not allowed", "values.yaml:4: additional properties"),
        ("cache:\n- at '/size': got string, want integer", "values.yaml:5: 'cache.size': got string"),
        ("web:\n- at '': missing property 'image'", "values.yaml:1: missing property 'image'"),
    ],
    ids=["key", "list", "unknown key", "subchart", "missing key"],
)
def test_a_refused_value_has_its_line(folder: Path, helm: str, line: str) -> None:
    """Helm has a pointer into the values; a missing key is that of what encloses it."""
    error = said(folder, SCHEMA + helm)
    assert error.message.startswith("release web: its values don't match the schema of charts/web\n" + line)
    assert error.remedy == "See: helm template web charts/web --values values.yaml"


@pytest.mark.parametrize(
    ("helm", "meant"),
    [
        ("web:\n- at '': additional properties 'replica' not allowed", "; did you mean 'replicas'?"),
        ("web:\n- at '/image': additional properties 'tga' not allowed", "; did you mean 'tag'?"),
        (
            "web:\n- at '': additional properties 'imag', 'replica' not allowed",
            "; did you mean 'image' and 'replicas'?",
        ),
        ("web:\n- at '': additional properties 'nothing' not allowed", "not allowed"),
        ("web:\n- at '/elsewhere/0': additional properties 'tga' not allowed", "not allowed"),
        ("cache:\n- at '': additional properties 'syze' not allowed", "; did you mean 'size'?"),
    ],
    ids=["key", "nested", "several", "none is near", "not in the schema", "subchart"],
)
def test_the_nearest_key_is_named(folder: Path, helm: str, meant: str) -> None:
    """Of a key that the schema doesn't have, it is the one that may have been meant."""
    properties = '{"replicas": {}, "image": {"properties": {"tag": {}}}}'
    (folder / "charts/web/values.schema.json").write_text('{"properties": ' + properties + "}")
    (folder / "charts/web/charts/cache").mkdir(parents=True)
    (folder / "charts/web/charts/cache/values.schema.json").write_text('{"properties": {"size": {}}}')
    assert said(folder, SCHEMA + helm).message.endswith(meant)


@pytest.mark.parametrize("schema", [None, "{", "[]", '{"properties": {"image": {"$ref": "#/definitions/image"}}}'])
def test_schema_that_does_not_say_what_was_meant(folder: Path, schema: str | None) -> None:
    """What Helm says is quoted then, without a guess."""
    if schema is not None:
        (folder / "charts/web/values.schema.json").write_text(schema)
    error = said(folder, SCHEMA + "web:\n- at '/image': additional properties 'tga' not allowed")
    assert error.message.endswith("not allowed")


def test_problems_come_in_the_order_of_the_file(folder: Path) -> None:
    """Helm has them in any order."""
    error = said(folder, SCHEMA + "web:\n- at '/cache': no\n- at '/replicas': no\n")
    assert [line.partition(":")[2][:1] for line in error.message.splitlines()[1:]] == ["1", "4"]


def test_a_template_is_named_by_its_file(folder: Path) -> None:
    """Helm names it by the chart's name; what is no file of the chart stays as Helm has it."""
    error = said(folder, "execution error at (app/templates/map.yaml:8:30): no tag; app/templates/gone.yaml")
    assert "charts/web doesn't render with values.yaml: " in error.message
    assert "(charts/web/templates/map.yaml:8:30): no tag; app/templates/gone.yaml" in error.message


def test_chart_with_its_own_values_only(folder: Path) -> None:
    """Without a file of values, the chart's defaults are what doesn't fit."""
    error = said(folder, SCHEMA + "web:\n- at '/replicas': got string", "gone.yaml")
    assert "charts/web doesn't render with its default values: values don't meet" in error.message
    assert error.remedy == "See: helm template web charts/web"


def test_values_that_have_become_unreadable_in_the_meantime(folder: Path) -> None:
    """No line can be named then, and Helm's words are quoted."""
    (folder / "values.yaml").write_text("a: [")
    assert "- at '/replicas': got string" in said(folder, SCHEMA + "web:\n- at '/replicas': got string").message
