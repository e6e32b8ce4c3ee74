"""Go sources as declarations, and which of them a program reaches, without compiling anything.

What is reached is found by names, as a compiler does it that knows no types: a declaration reaches all that it
mentions, and a type's method is reached once the type is, and something mentions a method of that name. This finds too
much rather than too little: a mention may be of something else that has the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

__all__ = ["Declaration", "GoSources", "arguments_at", "package_of", "without_comments"]

_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|`[^`]*`|'(?:\\.|[^'\\\n])+')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_IMPORTS = re.compile(r'^import (?:\((.*?)^\)|(\w+ )?("[^"]+"))', re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r'(?:([\w.]+)[ \t]+)?"([^"]+)"')
_DECLARED = re.compile(r"^(?:func|type|var|const)\b", re.MULTILINE)
_METHOD = re.compile(r"func \((?:\w+ )?\*?(\w+)(?:\[[^\]]*\])?\) (\w+)")
_SINGLE = re.compile(r"(?:func|type|var|const) (\w+)")
_GROUPED = re.compile(r"^\t(\w+)\b.*(?:\n(?:\t[\t})]|$).*)*", re.MULTILINE)
"""One of several in `const ( … )`: its line, and those below it that are indented further, or close what it opened."""
_MENTION = re.compile(r"(\.?)(?:\b(\w+)\.)?\b(\w+)\b")
_ELSEWHERE = re.compile(r"_(?:test|windows|darwin|freebsd|netbsd|openbsd|solaris|plan9|js|wasm)\.go$")
"""Files that no program on Linux contains."""
_QUOTES = "\"'`"


@dataclass(frozen=True)
class Declaration:
    """A function, method, type, variable or constant."""

    package: str
    text: str
    imports: Mapping[str, str]
    """What its file calls a package → the package's path."""


@dataclass(frozen=True)
class _Package:
    declared: dict[str, Declaration] = field(default_factory=dict)
    methods: dict[str, dict[str, Declaration]] = field(default_factory=dict)
    """By their type, then by their name."""


class GoSources:
    """The packages of which `folder_of` knows the folder; it returns None for those that aren't followed."""

    def __init__(self, folder_of: Callable[[str], Path | None]) -> None:
        self._folder_of = folder_of
        self._packages: dict[str, _Package] = {}

    def reached(self, path: str) -> list[Declaration]:
        """All that the program in package `path` reaches from its `main`."""
        walk = _Walk(self.package)
        walk.mention(path, "main")
        return walk.to_its_end()

    def constant(self, expression: str, within: Declaration) -> str | None:
        """The text that a constant stands for, `name` or `package.name`; None for anything else."""
        qualifier, _, name = expression.rpartition(".")
        path = within.imports.get(qualifier, "") if qualifier else within.package
        found = self.package(path).declared.get(name)
        value = re.match(r'[^=]*=\s*(?:\w+\()?"([^"]*)"', found.text) if found else None
        return value[1] if value else None

    def package(self, path: str) -> _Package:
        """The declarations of a package; none where it isn't followed."""
        if path not in self._packages:
            folder = self._folder_of(path)
            files = sorted(folder.glob("*.go")) if folder else []
            texts = (file.read_text() for file in files if not _ELSEWHERE.search(file.name))
            self._packages[path] = package_of(path, texts)
        return self._packages[path]


def package_of(path: str, texts: Iterable[str]) -> _Package:
    """What the files of a package declare at their top level, as gofmt writes them; `init` and `_` left out."""
    package = _Package()
    for text in map(without_comments, texts):
        imports = dict(_imports(text))
        starts = [found.start() for found in _DECLARED.finditer(text)]
        for start, end in pairwise([*starts, len(text)]):
            declaration = Declaration(path, text[start:end], imports)
            if method := _METHOD.match(declaration.text):
                package.methods.setdefault(method[1], {})[method[2]] = declaration
            elif single := _SINGLE.match(declaration.text):
                package.declared[single[1]] = declaration
            else:
                for each in _GROUPED.finditer(declaration.text):
                    package.declared[each[1]] = Declaration(path, each[0], imports)
    return package


def without_comments(text: str) -> str:
    """Go without its comments; what looks like one within a text stays."""
    return _COMMENT.sub(lambda found: found[1] or "", text)


def arguments_at(text: str, start: int) -> list[str]:
    """The arguments of a call whose opening parenthesis ends at `start`."""
    found, depth, begun, at = [], 0, start, start
    while depth >= 0:
        character = text[at]
        if character in _QUOTES:
            at = _end_of_text(text, at)
        depth += (character in "([{") - (character in ")]}")
        if depth < 0 or (character == "," and depth == 0):
            found.append(text[begun:at].strip())
            begun = at + 1
        at += 1
    return [each for each in found if each]


def _end_of_text(text: str, start: int) -> int:
    quote, at = text[start], start + 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "`" else 1
    return at


def _imports(text: str) -> Iterator[tuple[str, str]]:
    for block, alias, single in _IMPORTS.findall(text):
        for name, path in _IMPORT.findall(block or f"{alias}{single}"):
            yield name or path.rpartition("/")[2].replace("-", "_"), path


class _Walk:
    """From one declaration to the next."""

    def __init__(self, package: Callable[[str], _Package]) -> None:
        self._package = package
        self._waiting: list[Declaration] = []
        self._mentioned: set[tuple[str, str]] = set()
        self._selected: set[str] = set()
        """Names after a point: of fields and of methods."""
        self._methods: dict[str, list[Declaration]] = {}
        """Methods of reached types that nothing has mentioned yet, by name."""

    def mention(self, path: str, name: str) -> None:
        """What a package declares by that name is reached; a name that it doesn't declare is a local one."""
        if (path, name) in self._mentioned:
            return
        self._mentioned.add((path, name))
        package = self._package(path)
        if name in package.declared:
            self._waiting.append(package.declared[name])
        for method, declaration in package.methods.get(name, {}).items():
            if method in self._selected:
                self._waiting.append(declaration)
            else:
                self._methods.setdefault(method, []).append(declaration)

    def to_its_end(self) -> list[Declaration]:
        """All that is reached."""
        reached = []
        while self._waiting:
            declaration = self._waiting.pop()
            reached.append(declaration)
            for point, qualifier, name in set(_MENTION.findall(declaration.text)):
                path = declaration.imports.get(qualifier) if not point else None
                if path:
                    self.mention(path, name)
                else:
                    self._local(declaration.package, point, qualifier, name)
        return reached

    def _local(self, path: str, point: str, qualifier: str, name: str) -> None:
        """`x`, `x.name` or `.name`, where x is no package."""
        if (qualifier or point) and name not in self._selected:
            self._selected.add(name)
            self._waiting += self._methods.pop(name, ())
        if qualifier and point:
            self._local(path, point, "", qualifier)
        elif not point:
            self.mention(path, qualifier or name)
