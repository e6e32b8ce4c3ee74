"""Renders the templates beside it. The only module that knows Jinja2.

Every value is text of others: a pod's log, an event, a name. It is made printable (secrets masked, control characters
replaced) and then escaped, whatever the template does with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from upgrader.model.time_text import milliseconds
from upgrader.redaction.printable import printable

__all__ = ["render", "stylesheet"]

_FOLDER = Path(__file__).parent
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither XML nor UTF-8 can have; a journal keeps what was no UTF-8 as lone surrogates."""


_CODE = re.compile(r"`([^`\n]{1,200})`")


class _Compiled(BytecodeCache):
    """Templates are compiled once for each process; the environment is another one for each rendering."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


def render(name: str, /, **values: Any) -> str:
    """The template of that name (`report/report.html.j2`) with these values; UTF-8 can encode it."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        bytecode_cache=_COMPILED,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=(finalize := _made_printable()),
    )

    def with_code(text: str) -> Markup:
        """Text in which backticks mark what is typed."""
        return Markup(_CODE.sub(r"<code>\1</code>", str(escape(finalize(text)))))  # noqa: S704 - escaped first

    environment.filters |= {
        "day_and_time": _day_and_time,
        "time_of_day": _time_of_day,
        "ms": milliseconds,
        "with_code": with_code,
        "quoted": lambda value: Markup(json.dumps(finalize(str(value)), ensure_ascii=False)),  # noqa: S704 - for YAML
    }
    return environment.get_template(name).render(values)


def stylesheet(name: str) -> tuple[Markup, Markup]:
    """A style sheet beside the templates, and the source by which a Content-Security-Policy allows it alone."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), Markup(f"sha256-{digest}")  # noqa: S704 - our own file, and no value of others


def _day_and_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"


def _time_of_day(time: datetime) -> str:
    return f"{time:%H:%M:%S}"


def _made_printable() -> Callable[[Any], Any]:
    """What is shown often is masked once; for one rendering only, as secrets may be learned later."""
    known: dict[str, str] = {}

    def finalize(value: Any) -> Any:
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        if value not in known:
            known[value] = _NOT_XML.sub("\ufffd", printable(value))
        return known[value]

    return finalize
