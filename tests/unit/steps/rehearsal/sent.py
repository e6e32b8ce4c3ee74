"""What a program gets that is sent to a host."""

from __future__ import annotations

import ast
import json
from typing import Any

__all__ = ["asked_in"]


def asked_in(stdin: bytes) -> Any:
    """What it is asked, which comes with the program itself."""
    (asked,) = ast.literal_eval(stdin.split(b"\n", 1)[0].decode().partition("SECRETS = ")[2])
    return json.loads(asked)
