"""What is supported: docs/reference/supported.md, made from the code's versions and from bench/results."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from bench.kinds.public_files import PublicFile, public_files
from bench.kinds.record import Row
from scripts import versions_reference

__all__ = ["ORDER", "page", "supported"]

ORDER = ("adopt", "run", "bad flag", "power cut", "recover", "undo")
"""The columns as they are shown."""

_INTRODUCTION = """\
## Kinds of clusters

kubeadm can make clusters in many ways. Each row is a kind of cluster that was tried, or that is refused.
[adopt](../kubeadm.md) was run first; the other columns were run on the adopted cluster, from {old} to {new}:

| column | what is done |
|---|---|
| adopt | `upgrader adopt`, while clients send requests to the API; without `--permit-port-sharing`, which labs set \
and kubeadm doesn't, kube-apiserver restarts first ([Plain kubeadm](#plain-kubeadm)) |
| run | `upgrader run` to the next minor, while clients send requests |
| bad flag | `upgrader run` with a flag that kube-apiserver can't parse, under load: it is rolled back |
| power cut | a controller (or the only one) loses power, and boots: the control plane comes back by itself |
| recover | `helm upgrade` with a bad flag, a power cut during it, then `upgrader recover` |
| undo | `upgrader adopt --undo`, while clients send requests: kubeadm's static pods run again |
"""

_LEGEND = {
    "passed DATE": "*Passed* with a date: it passed on a lab on that day.",
    "passed (lab test)": "*Passed (lab test)*: a test in this repository makes such a lab.",
    "derived": "*Derived*: unit tests show that `adopt` makes the right values from such files; no cluster of that "
    "kind was adopted.",
    "rolled back": "*Rolled back*: the step fails, with the message that is quoted below, and its changes are undone.",
    "refused": "*Refused*: `upgrader` refuses it before anything changes, with the message that is quoted below.",
}
"""What a cell's first words mean. Only what a cell shows is explained."""


def supported(rows: Sequence[Row], files: Sequence[PublicFile], old: str, new: str) -> str:
    """The whole page: versions, kinds of clusters, other people's files."""
    return f"{versions_reference.render()}\n{page(rows, old, new)}\n{public_files(files)}"


def page(rows: Sequence[Row], old: str, new: str) -> str:
    """The part of the page about kinds, as Markdown."""
    lines = [_INTRODUCTION.format(old=old, new=new), *_legend(rows)]
    lines += [f"| kind | {' | '.join(ORDER)} |", "|---" * (len(ORDER) + 1) + "|"]
    lines += [f"| [{row['title']}](#{_anchor(row['title'])}) | {' | '.join(_cells(row))} |" for row in rows]
    for row in rows:
        lines += ["", f"### {row['title']}", "", _wrapped(row["what"]), "", *_details(row)]
    return "\n".join(lines).rstrip() + "\n"


def _legend(rows: Sequence[Row]) -> list[str]:
    """What the results mean that there are."""
    shown = {re.sub(r"\d{4}-\d\d-\d\d$", "DATE", cell) for row in rows for cell in _cells(row)}
    words = [what for result, what in _LEGEND.items() if any(cell.startswith(result) for cell in shown)]
    return [_wrapped(" ".join(words)), ""] if words else []


def _cells(row: Row) -> list[str]:
    if row["cells"].get("adopt", {}).get("result") in ("refused", "rolled back"):
        return [_short(row["cells"]["adopt"]), *("–" for _ in ORDER[1:])]
    return [_short(row["cells"].get(column)) for column in ORDER]


def _short(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "not tried"
    if "date" in cell:
        return f"{cell['result']} {cell['date']}"
    on_lab = cell["test"].startswith(("tests/e2e/", "tests/soak/"))
    return f"{cell['result']} (lab test)" if on_lab else str(cell["result"])


def _details(row: Row) -> list[str]:
    """How it is known: each command or test once, with what it showed."""
    found: dict[str, list[str]] = {}
    for column in ORDER:
        if cell := row["cells"].get(column):
            took = f" {cell['seconds']:.0f} s" if "seconds" in cell else ""
            load = f", {cell.get('failed', 0)} of {cell['requests']:,} requests failed" if "requests" in cell else ""
            words = f': "{cell["words"]}"' if "words" in cell else ""
            words += f" ([why](../adr/{cell['adr']}))" if "adr" in cell else ""
            found.setdefault(cell.get("command") or cell["test"], []).append(f"{column}{took}{load}{words}")
    return [_wrapped(f"`{how}`: {'; '.join(seen)}.") for how, seen in found.items()] or ["Nothing was tried."]


def _wrapped(words: str) -> str:
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)


def _anchor(title: str) -> str:
    """As GitHub makes them."""
    return "".join(each for each in title.lower().replace(" ", "-") if each.isalnum() or each in "-_")
