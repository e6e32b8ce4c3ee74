"""The README of each chart, made from the comments in its values.yaml: `make docs` writes charts/*/README.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

__all__ = ["render"]

_INSTALL = """\
```
helm upgrade --install {name} charts/{name} --namespace {namespace} --values values/{name}.yaml \\
  --rollback-on-failure --wait --timeout 5m
```
"""


_NAMESPACES = {"fleet": "fleet --create-namespace", "guard": "guard --create-namespace"}
"""Charts whose workloads are not in kube-system."""


def render(chart: Path) -> str:
    """The README of the chart in a folder, as Markdown. Raises ValueError when a value has no comment."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    name = about["name"]
    intro = chart / "README.intro.md"
    parts = [
        f"# {about['name']}\n\n{about['description']}\n",
        _INSTALL.format(name=name, namespace=_NAMESPACES.get(name, "kube-system")),
    ]
    if intro.exists():
        parts.append(intro.read_text())
    parts.append("## Values\n\n`make docs` generates this section from the comments in `values.yaml`.\n")
    rows = [f"| `{name}` | {_code(default)} | {text} |" for name, default, text in _values(chart / "values.yaml")]
    parts.append("\n".join(["| value | default | what it is |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _values(path: Path) -> Iterator[tuple[str, Any, str]]:
    """Each documented value: dotted name, default, and the comment above it."""
    text = path.read_text()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), f"{path} is a mapping"
    yield from _walk(root, yaml.safe_load(text), "", text.splitlines(), path)


def _walk(
    node: yaml.MappingNode, data: dict[str, Any], prefix: str, lines: list[str], path: Path
) -> Iterator[tuple[str, Any, str]]:
    for key, value in node.value:
        name, comment = f"{prefix}{key.value}", _comment(lines, key.start_mark.line)
        if comment:
            yield name, data[key.value], comment
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _walk(value, data[key.value], f"{name}.", lines, path)
        else:
            raise ValueError(f"{path}:{key.start_mark.line + 1}: {name} has no comment that says what it is for")


def _comment(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(found).replace("|", "\\|")


def _code(default: object) -> str:
    text = yaml.safe_dump(default, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    return f"`{text}`".replace("|", "\\|")


if __name__ == "__main__":
    for folder in sorted(path.parent for path in Path("charts").glob("*/Chart.yaml")):
        (folder / "README.md").write_text(render(folder))
        print(f"{folder / 'README.md'} written", file=sys.stderr)
