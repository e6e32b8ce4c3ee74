"""Versions on offer as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.app.versions_on_offer import Here, OfferedVersion
from upgrader.cli.ui.terminal import console, show
from upgrader.model.emulation import minor_text
from upgrader.model.support_ends import support_ends

__all__ = ["print_versions"]

_SOURCES = {"cluster": "runs in the cluster", "upgrader.yaml": "in upgrader.yaml", "--from": "as given"}


def print_versions(here: Here, offered: Sequence[OfferedVersion], today: date, stream: TextIO | None = None) -> None:
    """Print the cluster's version, a line for each newer version, and the date of these data."""
    out = console(stream)
    emulated = f", emulating {minor_text(here.emulated)}" if here.emulated else ""
    show(out, Text(f"{here.version} {_SOURCES[here.source]}{emulated}; {_support(here, today)}"))
    if here.problem:
        show(out, Text(f"The cluster's version is unknown: {here.problem}", style="yellow"))
    if not offered:
        show(out, Text("No newer version is known."))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("VERSION", "RUNS", "THROUGH", "PATCHES UNTIL"):
        table.add_column(title, no_wrap=True)
    table.add_column("DO BEFORE")
    for each in offered:
        ended = each.supported_until is not None and each.supported_until < today
        table.add_row(
            Text(str(each.version)),
            Text(str(len(each.hops) or "?")),
            Text(", ".join(map(str, each.hops[:-1])) or "-"),
            Text(_day(each.supported_until, today), style="yellow" if ended else ""),
            Text(_first(here, each)),
        )
    show(out, table)
    show(out, Text(f"End-of-support dates as of {support_ends().made}.", style="dim"))


def _support(here: Here, today: date) -> str:
    known = support_ends()
    until = known.of(here.version)
    if until is not None:
        return f"patches until {_day(until, today)}"
    if (here.version.major, here.version.minor) < min(known.ends):
        return "no more patches"
    return f"the end of its patches was not known on {known.made}"


def _day(day: date | None, today: date) -> str:
    if day is None:
        return "not known yet"
    return f"{day} (ended)" if day < today else str(day)


def _first(here: Here, each: OfferedVersion) -> str:
    """The actions required before."""
    needed = []
    if here.emulated and each.version.minors_after(here.version) > 0:
        needed.append("upgrader finalize")
    if not each.known:
        needed.append("a newer upgrader")
    if not each.hops:
        needed.append("name the minors in between (`through`)")
    if each.old_kubelets:
        more = f" and {len(each.old_kubelets) - 3} more" if len(each.old_kubelets) > 3 else ""
        needed.append(f"upgrade the kubelets of {', '.join(each.old_kubelets[:3])}{more}")
    return "; ".join(needed) or "-"
