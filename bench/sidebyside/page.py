"""All trials as a page for people. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.sidebyside.trial import BAD_FLAG_PUSHED, UPGRADE, Trial

__all__ = ["Circumstances", "page", "ratio", "spread"]


@dataclass(frozen=True)
class Circumstances:
    """Where and how it was measured.

    `commands`: those that measured, in order; `disks`: the file system of the nodes' disks, tmpfs is memory;
    `versions`: what → which.
    """

    date: str
    commands: Sequence[str]
    cores: int
    requests_per_second: float
    patience_seconds: float
    disks: str
    versions: Mapping[str, str]


def page(
    where: Circumstances, titles: Mapping[str, str], trials: Sequence[Trial], picture: str, remarks: str = ""
) -> str:
    """The whole page, as Markdown.

    `titles`: way → what it is called; `picture`: the name of the plot's file; `remarks`: hand-written
    Markdown about the figures, or nothing.
    """
    parts = [_HEAD.format(picture=picture), *_warning(where, trials)]
    for controllers in sorted({trial.controllers for trial in trials}):
        here = [trial for trial in trials if trial.controllers == controllers]
        parts.append(f"## {'One controller' if controllers == 1 else f'{controllers} controllers'}\n")
        parts += _section(titles, here)
    added = [remarks] if remarks else []
    return "\n".join([*parts, _circumstances(where, trials), *added, _METHOD.format(where=where)])


def spread(values: Iterable[float | None], form: str = "{:.0f}") -> str:
    """The median, with least and most in brackets where they differ; "–" for no value."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    middle, least, most = (form.format(value) for value in (statistics.median(known), min(known), max(known)))
    return middle if least == most else f"{middle} ({least}–{most})"


def ratio(trials: Sequence[Trial], way: str, other: str) -> float | None:
    """The median wall time of one way's upgrades over that of another's; None when either is missing."""
    medians = []
    for name in (way, other):
        seconds = [t.command_seconds for t in trials if t.way == name and t.what == UPGRADE and t.command_seconds]
        if not seconds:
            return None
        medians.append(statistics.median(seconds))
    return medians[0] / medians[1]


def _section(titles: Mapping[str, str], trials: Sequence[Trial]) -> list[str]:
    parts = []
    upgrades = _grouped(titles, trials, UPGRADE)
    if upgrades:
        parts += ["### Upgrade\n", _table(_UPGRADE, titles, upgrades)]
        found = ratio(trials, "run", "charts")
        if found is not None:
            parts.append(
                f"Wall time of `upgrader run` ÷ bare `helm upgrade --wait` of the same charts: **{found:.2f}**.\n"
            )
    bad = _grouped(titles, trials, BAD_FLAG_PUSHED)
    if bad:
        parts += ["### A flag that kube-apiserver doesn't know\n", _table(_BAD_FLAG, titles, bad)]
        parts.append("How each became healthy again:\n")
        parts += [f"- {titles[way]}: {_fixed_by(group)}" for way, group in bad.items()]
        parts.append("")
    return [*parts, "### What failed, and what was repeated\n", *_errors(titles, upgrades), ""]


Column = tuple[str, Callable[[Trial], float | None], str]
_CLIENTS: tuple[Column, ...] = (
    ("failed", lambda t: t.seen.failed, "{:.0f}"),
    ("raw", lambda t: t.seen.raw_failed, "{:.0f}"),
    ("of", lambda t: t.seen.requests, "{:.0f}"),
    ("longest gap, ms", lambda t: t.seen.longest_gap_ms, "{:.0f}"),
    ("p50, ms", lambda t: t.seen.p50_ms, "{:.1f}"),
    ("p99, ms", lambda t: t.seen.p99_ms, "{:.0f}"),
    ("watch events missed", lambda t: t.seen.watch_missed, "{:.0f}"),
)
_UPGRADE: tuple[Column, ...] = (
    *_CLIENTS,
    ("wall time, s", lambda t: t.command_seconds, "{:.0f}"),
    ("all done, s", lambda t: t.done_seconds, "{:.0f}"),
    ("memory peak, MiB", lambda t: t.seen.memory_peak_mib, "{:.0f}"),
    ("above start, MiB", lambda t: t.seen.memory_peak_mib - t.seen.memory_before_mib, "{:.0f}"),
)
_BAD_FLAG: tuple[Column, ...] = (*_CLIENTS[:4], ("healthy again, s", lambda t: t.done_seconds, "{:.0f}"))


def _table(columns: Sequence[Column], titles: Mapping[str, str], groups: Mapping[str, Sequence[Trial]]) -> str:
    head = ["way", *(name for name, _, _ in columns), "n"]
    rows = [
        [titles[way], *(spread((value(trial) for trial in group), form) for _, value, form in columns), str(len(group))]
        for way, group in groups.items()
    ]
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _grouped(titles: Mapping[str, str], trials: Sequence[Trial], what: str) -> dict[str, list[Trial]]:
    found = {way: [t for t in trials if t.way == way and t.what == what] for way in titles}
    return {way: group for way, group in found.items() if group}


def _fixed_by(group: Sequence[Trial]) -> str:
    counts = Counter(trial.fixed_by or "not fixed in the time that was given" for trial in group)
    return "; ".join(who if len(counts) == 1 else f"{who} ({times}×)" for who, times in counts.most_common())


def _errors(titles: Mapping[str, str], groups: Mapping[str, Sequence[Trial]]) -> list[str]:
    lines = []
    for way, group in groups.items():
        found: Counter[str] = Counter()
        for trial in group:
            found.update(trial.seen.errors)
        errors = "; ".join(f"{count} × {error}" for error, count in found.most_common(5))
        notes = "".join(f". {note}" for note in dict.fromkeys(trial.note for trial in group if trial.note))
        lines.append(f"- {titles[way]}: {errors or 'nothing'}{notes}")
    return lines


def _warning(where: Circumstances, trials: Sequence[Trial]) -> list[str]:
    """A warning if the machine was busy before the trials began."""
    loads = [trial.load_average for trial in trials]
    if not loads or statistics.median(loads) <= 2 * where.cores:
        return []
    return [_BUSY.format(loads=spread(loads), cores=where.cores)]


def _circumstances(where: Circumstances, trials: Sequence[Trial]) -> str:
    loads = spread((trial.load_average for trial in trials), "{:.1f}")
    versions = ", ".join(f"{name} {version}" for name, version in where.versions.items())
    commands = "\n".join(f"$ {command}" for command in where.commands)
    return (
        f"## Circumstances\n\n{where.date}, {where.cores} cores, load average (1 min) when a trial began: {loads}.\n"
        f"Nodes' disks on {where.disks}. {versions}.\n\n"
        f"```console\n{commands}\n```\n"
    )


_HEAD = """# Upgrades side by side

What clients of the API notice when a control plane is upgraded from one minor version of Kubernetes to the next, for
each method. `make bench-sidebyside` writes this page, the picture and
[the figures](../../bench/results/zero-outage.json). Medians, with least and most in brackets.

![Answered requests over time, for each way]({picture})
"""

_BUSY = """**The machine was busy.** The load average was {loads} on {cores} cores when the trials began.
Timeouts may be due to that; refused requests, and the shape of the outages, are not. Measure on an idle machine before
you rely on any figure.
"""

_METHOD = """## How it was measured

- Every trial begins from a snapshot of the same lab, restored and healthy. The methods take turns.
- The load is [`upgrader probe`](../availability.md) at {where.requests_per_second:.0f} requests a second through the
  kubeconfig's address: new and keep-alive connections, HTTP/1.1 and HTTP/2, reads, writes, lists, two watches. *failed*
  counts requests that failed after the retries that HTTP's RFCs allow, *raw* counts failed first tries. It begins 5 s
  before the upgrade and ends 10 s after all is done. `upgrader run` adds its own prober: 10 requests a second more.
- *Wall time*: until the last command had ended. *All done*: until every pod of the control plane is Ready at the
  target, and no standby pod is active.
- Memory: the controller's control group, without file caches, measured twice a second.
- No method changes etcd or kubelets. All have the same kube-apiserver flags, except those that a chart adds for its
  handover. The lab's kubeadm cluster has GOAWAY, Retry-After and a watch grace period, so (a) stops its old instance
  more gently than kubeadm's defaults would. (b) and (c) have this project's pod-checkpointer, which is better than the
  original one.
- The bad flag is set at the target version, with each method's own tool. *Healthy again* counts from the start of
  kube-apiserver's change until everything is as before. If an operator has to roll back, they do so as soon as the tool
  gives up or the API is unreachable, or after {where.patience_seconds:.0f} s. Real operators are slower.
"""
