"""The flags that Go sources define."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from scripts.go_sources import Declaration, GoSources, arguments_at

__all__ = ["flags_in"]

_TYPES = (
    "Bool|BoolFunc|BoolSlice|BytesBase64|BytesHex|Count|Duration|DurationSlice|Float32|Float32Slice|Float64|"
    "Float64Slice|Func|IP|IPMask|IPNet|IPNetSlice|IPSlice|Int|Int8|Int16|Int32|Int32Slice|Int64|Int64Slice|IntSlice|"
    "String|StringArray|StringSlice|StringToInt|StringToInt64|StringToString|Text|Time|Uint|Uint8|Uint16|Uint32|Uint64|"
    "UintSlice"
)
_CALL = re.compile(rf"\.(?:({_TYPES})?(Var)?(P|PF)?|(MarkDeprecated)|(?<=globalflag\.)(Register))\(")
_AUDIT = re.compile(r'fmt\.Sprintf\("(audit-%s-[\w-]+)", pluginName\)')
_AUDIT_PLUGINS = ("log", "webhook")
_HANDED_ON = "name"
"""The parameter of a function that defines a flag for others: only `--version` is defined so."""
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
_TEXT = re.compile(rf"{_QUOTED.pattern}(?:\s*\+\s*{_QUOTED.pattern})*")


def flags_in(reached: Iterable[Declaration], sources: GoSources) -> dict[str, str | None]:
    """The flags that declarations define, each with the message of its deprecation, which is None where it has none.

    Raises ValueError for a definition whose name can't be read: without it, the flag would be taken for an unknown one.
    """
    names: set[str] = set()
    deprecated: dict[str, str] = {}
    for declaration in reached:
        if not any(path.endswith(("flag", "flags")) for path in declaration.imports.values()):
            continue
        for call in _CALL.finditer(declaration.text):
            arguments = arguments_at(declaration.text, call.end())
            type_, variable, short, deprecation, register = call.groups()
            if deprecation:
                for name in _names(arguments[0], declaration, sources):
                    deprecated[name] = _text(arguments[1])
            elif len(arguments) == _arity(type_, variable, short, register):
                expression = arguments[1 if variable or register else 0]
                found = _names(expression, declaration, sources)
                if not found and variable and expression != _HANDED_ON:
                    raise ValueError(f"a flag of {declaration.package} has the name {expression}, which can't be read")
                names |= found
    return {name: deprecated.get(name) for name in sorted(names)}


def _arity(type_: str | None, variable: str | None, short: str | None, register: str | None) -> int:
    """How many arguments define a flag: `Int(name, value, usage)`, `IntVar(&it, …)`, `IntP(name, shorthand, …)`."""
    if register:
        return 2
    without_value = type_ in (None, "Count")
    return 3 + bool(variable) + bool(short) - without_value


def _names(expression: str, declaration: Declaration, sources: GoSources) -> set[str]:
    """The flags that an expression names; `_` in a flag is the same as `-`."""
    if _TEXT.fullmatch(expression):
        return {_text(expression).replace("_", "-")}
    if audit := _AUDIT.fullmatch(expression):
        return {audit[1].replace("%s", plugin) for plugin in _AUDIT_PLUGINS}
    constant = sources.constant(expression, declaration) if re.fullmatch(r"[\w.]+", expression) else None
    return {constant.replace("_", "-")} if constant else set()


def _text(expression: str) -> str:
    """Of a text, or several that are joined; "" for anything else."""
    if not _TEXT.fullmatch(expression):
        return ""
    return "".join(json.loads(part) for part in _QUOTED.findall(expression))
