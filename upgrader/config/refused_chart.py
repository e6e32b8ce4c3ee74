"""Names the files, lines and keys of a chart that doesn't render with its values: Helm names them as it has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import Document, KeyPath, read_mapping, shown
from upgrader.errors import ChartRefused, ConfigError

__all__ = ["with_files"]

_CHART_OF = re.compile(r"\s*([\w.-]+):\s*")
_PROBLEM = re.compile(r"\s*- (?:at '(?P<at>[^']*)': )?(?P<why>.*)")
_ADDITIONAL = re.compile(r"additional propert(?:y|ies) (?P<names>'.*') not allowed")
_TEMPLATE = re.compile(r"(?<![\w/.-])[\w.-]+/((?:charts/[\w.-]+/)*templates/[\w./-]+)")

_LONGEST, _MANY, _SHOWN = 100, 1000, 5
"""The chart's author decides the number and the length of the keys that are compared: these are the limits."""


def with_files(error: ChartRefused, release: str, chart: Path, values_file: Path | None) -> ChartRefused:
    """The same, with `FILE:LINE` of each value that the chart's schema refuses, and of the template that failed."""
    given = values_file if values_file is not None and values_file.is_file() else None
    refused = tuple(_refused_values(error.message, given, chart)) if given is not None else ()
    remedy = error.remedy.replace(" --values FILE", f" --values {shown(given)}" if given is not None else "")
    if refused:
        told = "\n".join(refused)
        return ChartRefused(
            f"release {release}: its values don't match the schema of {shown(chart)}\n{told}", remedy=remedy
        )
    cause = error.message.removeprefix(f"Helm failed on release '{release}': ")
    described = f"{shown(chart)} doesn't render with {shown(given) if given is not None else 'its default values'}"
    return ChartRefused(f"release {release}: {described}: {_in_folder(cause, chart)}", remedy=remedy)


def _in_folder(text: str, chart: Path) -> str:
    """Helm names templates by the chart's name, which needn't be that of its folder."""

    def named(match: re.Match[str]) -> str:
        path = chart / match[1]
        return shown(path) if path.is_file() else match[0]

    return _TEMPLATE.sub(named, text)


def _refused_values(text: str, values_file: Path, chart: Path) -> Iterator[str]:
    """`values/web.yaml:3: 'replicas': got string, want integer`; nothing if Helm's message has another cause."""
    _, known, problems = text.partition("values don't meet the specifications of the schema(s)")
    if not known:
        return
    try:
        document = read_mapping(values_file)
    except ConfigError:
        return  # it was read before, and is another one now: what Helm says is of the old one
    of, found = "", list[tuple[int, str]]()
    for line in problems.splitlines()[1:]:
        header, problem = _CHART_OF.fullmatch(line), _PROBLEM.fullmatch(line)
        if header is not None:
            of = header[1]
        elif problem is not None:
            number, what = _placed(document, of, problem["at"] or "", problem["why"])
            found.append((number, what + _meant(chart, of, problem["at"] or "", problem["why"])))
    for number, what in sorted(found):  # Helm has them in any order
        yield f"{shown(values_file)}:{number}: {what}"


def _placed(document: Document, chart: str, pointer: str, why: str) -> tuple[int, str]:
    """The line of a problem, and its description."""
    where: KeyPath = tuple(_part(part) for part in pointer.split("/")[1:])
    extra = _ADDITIONAL.fullmatch(why)
    if extra is not None:
        where = (*where, extra["names"].split(", ")[0].strip("'"))
    # The values of a subchart are below its name.
    if where and where[:1] not in document.lines and (chart, *where[:1]) in document.lines:
        where = (chart, *where)
    key = ".".join(map(str, where))
    return document.line(where), f"'{key}': {why}" if key and extra is None else why


def _meant(chart: Path, of: str, pointer: str, why: str) -> str:
    """Suggestions for keys that the schema doesn't have; "" if no other is similar."""
    extra = _ADDITIONAL.fullmatch(why)
    folder = chart / "charts" / of
    given = (folder if folder.is_dir() else chart) / "values.schema.json"
    if extra is None or not given.is_file():  # a packed chart, say
        return ""
    try:
        schema: Any = json.loads(given.read_bytes())
        for part in pointer.split("/")[1:]:
            schema = schema["properties"][str(_part(part))]
        known = [str(key) for key in schema["properties"] if len(key) <= _LONGEST][:_MANY]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # `$ref` and its like: nothing is guessed
    names = [name.strip("'") for name in extra["names"].split(", ", _MANY) if len(name) <= _LONGEST][:_SHOWN]
    near = [key for name in names for key in get_close_matches(name, known, n=1)]
    return "; did you mean " + " and ".join(f"'{key}'" for key in near) + "?" if near else ""


def _part(text: str) -> str | int:
    """A part of a JSON pointer."""
    return int(text) if text.isdecimal() else text.replace("~1", "/").replace("~0", "~")
