"""Log lines as JSON on stdout: one object a line, no secrets (nothing that was read from a Secret is ever handed to a
logger).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonFormatter", "to_stdout"]

_LONGEST = 4096
"""Of each value, in characters: many are what others have written, such as an annotation of 256 KiB."""
_KNOWN = set(vars(logging.makeLogRecord({})))


class JsonFormatter(logging.Formatter):
    """Time, level and message, then whatever the caller passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its newline."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": _cut(record.getMessage()),
            **{k: _cut(v) for k, v in vars(record).items() if k not in _KNOWN and k != "message"},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_LONGEST:]
        return json.dumps(line, default=str)


def _cut(value: object) -> object:
    text = value if isinstance(value, str) else str(value)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def to_stdout(log: logging.Logger, level: str) -> None:
    """Send what is logged there to stdout, from a level such as `info` on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
