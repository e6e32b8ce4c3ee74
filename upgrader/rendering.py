"""Renders the built-in templates, or the user's own of the same names. The only module that knows Jinja2.

Every value is text of others: a pod's log, an event, a name. It is made printable (secrets masked, control characters
replaced) and then escaped, whatever the template does with it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from jinja2 import (
    BytecodeCache,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
)
from jinja2.bccache import Bucket
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup, escape

from upgrader.built_in_files import templates_folder
from upgrader.errors import ConfigError
from upgrader.model.redaction.printable import printable
from upgrader.model.time_text import milliseconds

__all__ = ["BUILT_IN", "Templates"]

_FOLDER = templates_folder()
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither XML nor UTF-8 can have; a journal keeps what was no UTF-8 as lone surrogates."""


_REMEDY = "Correct the file, or remove it: then the template that comes with upgrader is used."
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


@dataclass(frozen=True)
class Templates:
    """Where templates come from: `own` is a folder whose files take the place of those that come with upgrader."""

    own: Path | None = None

    @classmethod
    def of_user(cls, environment: Mapping[str, str]) -> Self:
        """With `upgrader/templates` in the user's configuration folder, where there is one.

        Never from a cluster's folder: a merge request could change what runs on the machine that reads it.
        """
        home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
        folder = Path(home) / "upgrader/templates"
        return cls(folder if folder.is_absolute() and folder.is_dir() else None)

    def render(self, name: str, /, **values: Any) -> str:
        """The template of that name (`report/report.html.j2`) with these values; UTF-8 can encode it.

        Raises ConfigError, with file and line, for one of the user's that can't be rendered.
        """
        kind = SandboxedEnvironment if self.own else Environment
        environment = kind(
            loader=ChoiceLoader([FileSystemLoader(folder) for folder in (self.own, _FOLDER) if folder]),
            bytecode_cache=None if self.own else _COMPILED,  # code for a sandbox is other code
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
        try:
            return environment.get_template(name).render(values)
        except (TemplateError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, OSError) as error:
            raise self._refused(error) or error from error

    def stylesheet(self, name: str) -> tuple[Markup, Markup]:
        """A style sheet, and the source by which a Content-Security-Policy allows it alone."""
        own = self.own / name if self.own else None
        file = own if own and own.is_file() else _FOLDER / name
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}", remedy=_REMEDY) from error
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return Markup(text), Markup(f"sha256-{digest}")  # noqa: S704 - a file, and no value of others

    def _refused(self, error: Exception) -> ConfigError | None:
        """Where the user's own template is wrong; None where none of them is the cause."""
        if self.own is None:
            return None
        places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, TemplateSyntaxError) and error.filename:
            places.append((error.filename, error.lineno))
        inside = [(name, line) for name, line in places if Path(name).is_relative_to(self.own)]
        return ConfigError(f"{inside[-1][0]}:{inside[-1][1]}: {error}", remedy=_REMEDY) if inside else None


BUILT_IN = Templates()
"""Those that come with upgrader, whatever the user has."""


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
