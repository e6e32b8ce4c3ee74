"""Shows what clients of the API saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.terminal import console, is_interactive, milliseconds, print_line, show
from upgrader.model.availability import Availability
from upgrader.model.event import AvailabilityMeasured

__all__ = ["availability_line", "live_line", "print_availability"]

_SHOWN = 10
"""How many failures are shown; `--json` has all that are kept."""


def availability_line(seen: Availability | AvailabilityMeasured) -> Text:
    """`API  1,234 requests · 0 failed (1 at the first try) · longest gap 140 ms`."""
    failed = (f"{seen.failed:,} failed", "bold red" if seen.failed else "green")
    raw = f" ({seen.raw_failed:,} at the first try)"
    gap = f"longest gap {milliseconds(seen.longest_gap_ms)}"
    return Text.assemble(("API  ", "bold"), f"{seen.requests:,} requests · ", failed, (raw, "dim"), f" · {gap}")


@contextmanager
def live_line(stream: TextIO) -> Iterator[Callable[[Availability], None]]:
    """Shows the counts while they grow: one line that changes on a terminal, nothing elsewhere."""
    if not is_interactive(stream):
        yield lambda _: None
        return
    with console(stream).status(Text("API  starting")) as status:
        yield lambda seen: status.update(availability_line(seen))


def print_availability(seen: Availability, stream: TextIO | None = None) -> None:
    """Print every kind of request with its counts and latencies, the watches, the failures and the sum."""
    out = console(stream)
    out.print()
    show(out, _lanes(seen))
    watches = seen.watches
    out.print(
        f"\n Watches  {watches.events:,} events, {watches.missed:,} missed, {watches.repeated:,} repeated; "
        f"resumed {watches.resumed:,} times"
    )
    held_up = f"stalled for at most {milliseconds(seen.stalled_ms)}"
    out.print(Text(f" Prober   {seen.cpu_percent:.1f} % of a core, {held_up}", style="dim"), soft_wrap=True)
    for title, failures in (("Failed", seen.failures), ("Failed at the first try only", seen.raw_failures)):
        if failures:
            out.print(Text(f"\n {title}", style="bold"))
            for line in _first(failures):
                print_line(out, Text(f"   {line}", style="dim"), 5)
    out.print("\n ", availability_line(seen), "\n", sep="")


def _lanes(seen: Availability) -> Table:
    table = Table.grid(padding=(0, 2))
    names, numbers = (" address", "client", "request"), ("requests", "failed", "raw", "p50", "p90", "p99", "longest")
    for name in (*names, *numbers):
        table.add_column(justify="left" if name in names else "right", no_wrap=True)
    table.add_row(*(Text(name, style="dim") for name in (*names, *numbers)))
    for lane in seen.lanes:
        times = (lane.latency.p50, lane.latency.p90, lane.latency.p99, lane.latency.longest)
        table.add_row(
            Text(f" {lane.address}"),  # that of IPv6 in brackets would be taken for a style
            lane.client,
            lane.request,
            f"{lane.requests:,}",
            Text(f"{lane.failed:,}", style="bold red" if lane.failed else ""),
            f"{lane.raw_failed:,}",
            *(f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" for value in times),
        )
    return table


def _first(failures: Sequence[object]) -> Iterable[str]:
    yield from (str(failure) for failure in failures[:_SHOWN])
    if len(failures) > _SHOWN:
        yield f"… and {len(failures) - _SHOWN:,} more"
