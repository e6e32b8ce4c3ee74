"""Builds the program that is sent to a host: modules of `upgrader.onhost` as one text, without a file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import upgrader

__all__ = ["program"]

_ROOT = Path(upgrader.__file__).parent
_FOLDERS = ("contract", "onhost/node", "onhost/common", "onhost/facts")
"""Modules that every program includes."""

_START = """
import importlib.abc, importlib.util, sys
class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=SOURCES[name][0])
    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__][1], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sources())
from {module} import main
main(*sys.argv[1:], *SECRETS)
"""


def program(module: str = "all_facts", package: str = "facts", secrets: tuple[str, ...] = ()) -> bytes:
    """Python source for the standard input of `python3 -`: a module of `onhost`, whose `main` gets the arguments,
    and then the `secrets`, which no list of processes shows.
    """
    return f"SECRETS = {list(secrets)!r}\n".encode() + _program(module, package)


@cache
def _program(module: str, package: str) -> bytes:
    # Module → whether it is a package, and its source; the packages around them are empty on a host.
    folders = dict.fromkeys((*_FOLDERS, f"onhost/{package}"))
    sources = {"upgrader": (True, ""), "upgrader.onhost": (True, "")}
    for file in (file for folder in folders for file in sorted((_ROOT / folder).rglob("*.py"))):
        is_package = file.stem == "__init__"
        parts = (file.parent if is_package else file.with_suffix("")).relative_to(_ROOT).parts
        sources[".".join(("upgrader", *parts))] = (is_package, file.read_text(encoding="utf-8"))
    main = f"upgrader.onhost.{package}.{module}"
    return f"SOURCES = {sources!r}\n{_START.replace('{module}', main)}".encode()
