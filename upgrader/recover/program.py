"""The program that is sent to a host: the modules of `onhost` as one text, which needs no file there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["program"]

_FOLDER = Path(__file__).parent / "onhost"

_START = """
import sys, types
package = types.ModuleType("onhost")
package.__path__ = []
sys.modules["onhost"] = package
for name in ORDER:
    module = types.ModuleType("onhost." + name)
    module.__package__ = "onhost"
    sys.modules["onhost." + name] = module
    setattr(package, name, module)
    exec(compile(SOURCES[name], "onhost/" + name + ".py", "exec"), module.__dict__)
sys.modules["onhost.main"].main(*sys.argv[1:])
"""

_ORDER = ("probe", "tls", "machine", "cri", "containers", "generations", "etcd", "api", "main")
"""Each after those that it imports."""


@cache
def program() -> bytes:
    """Python source for the standard input of `python3 -`; its first argument, if any, stands before every path."""
    sources = {name: (_FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in _ORDER}
    return f"SOURCES = {sources!r}\nORDER = {_ORDER!r}\n{_START}".encode()
