"""What the log lines of a component tell: the lines worth reading, the cause, and what it can't reach. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from upgrader.model.redaction.printable import mask_secrets

__all__ = ["headline", "lasting", "readable", "refuses_its_arguments", "unreachable_backend"]

_KLOG = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [^\]]+\] ")
_CAUSE = re.compile(r"^(?:Error:|[Ff]atal|FATAL|panic:|[EF]\d{4} |.*\b(?:level=(?:error|fatal)|\[ALERT\]))")
_USAGE = re.compile(r"^\s+(?:-\w, +)?--[\w-]+\s|^(?:Usage|\w[\w ]*flags):$")
"""The help for flags: some components print hundreds of lines of it before they name the wrong flag."""
_REFUSAL = re.compile(
    r"^(?:Error: )?(?:unknown (?:shorthand )?flag:|invalid argument .* for .* flag:|flag needs an argument:|"
    r"flag provided but not defined:)|: error: (?:unrecognized arguments:|argument )"
)
"""How Go's and Python's argument parsers refuse a command line."""
_NO_CONNECTION = re.compile(r'failed to connect to \{Addr: "(?P<address>[^"]+)".*(?:desc = |Err: )"?(?P<why>[^"]+)')
"""How a gRPC client, such as kube-apiserver's for etcd, reports that nothing answers at an address."""
_ADDRESS = re.compile(r"^\w+://|/.*$")
"""What a URL has besides the address of a server, as a gRPC client reports that."""
_GIVEN_UP = re.compile(r"operation was canceled|context canceled")
"""The client itself has closed what it was opening, as kube-apiserver does with etcd's clients while it starts."""
_CONNECTED_LINES = 40
"""kube-apiserver says more than this at once after it has connected to etcd, and little while it can't."""
_TIME = re.compile(r"^[IWEF]\d{4} (\d\d):(\d\d):(\d\d)")
_DAY_SECONDS = 86400
_PATIENT_SECONDS = 10
"""Longer than a local etcd takes to restart, and less than the 20 s after which kube-apiserver gives up and exits."""


def readable(text: str) -> tuple[str, ...]:
    """The lines of a log, without blank ones and help for flags, and with secrets masked."""
    return tuple(line.rstrip() for line in mask_secrets(text).splitlines() if line.strip() and not _USAGE.search(line))


def headline(lines: tuple[str, ...]) -> str:
    """The line of a log that most likely names the cause: the last error, or else the last line."""
    for line in reversed(lines):
        if _CAUSE.search(line):
            return _KLOG.sub("", line)
    return _KLOG.sub("", lines[-1]) if lines else ""


def refuses_its_arguments(line: str) -> bool:
    """Whether a program rejects its command line here: every restart will fail in the same way."""
    return _REFUSAL.search(line) is not None


def unreachable_backend(lines: tuple[str, ...], backends: Iterable[Collection[str]]) -> str:
    """What a program has not been able to connect to for long, as of the end of these lines; "" for nothing.

    `backends`: for each, the URLs of all its servers, of which one is enough: the program tries them all, and reports
    those that are away also while another one serves it. Uses the times in its own log, as its node's clock may differ
    from ours.
    """
    failed: dict[str, list[tuple[str, re.Match[str]]]] = {}
    for line in lines:
        if (match := _NO_CONNECTION.search(line)) and not _GIVEN_UP.search(match["why"]):
            failed.setdefault(match["address"], []).append((line, match))
    end = lines[-_CONNECTED_LINES:]
    away = {
        address: match["why"].strip()
        for address, found in failed.items()
        if found[-1][0] in end and (match := lasting(found, lines))
    }
    for servers in backends:
        addresses = [_ADDRESS.sub("", url) for url in servers]
        if all(address in away for address in addresses):
            return f"it can't connect to {', '.join(addresses)}: {away[addresses[-1]]}"
    return ""


def lasting(
    failed: Sequence[tuple[str, re.Match[str]]], lines: tuple[str, ...], seconds: int = _PATIENT_SECONDS
) -> re.Match[str] | None:
    """The last of the failures among some lines, if they lasted for `seconds` and until the end, by the lines' own
    times.
    """
    if not failed:
        return None
    first, last = _seconds(failed[0][0]), _seconds(failed[-1][0])
    end = next((time for line in reversed(lines) if (time := _seconds(line)) is not None), None)
    if first is None or last is None or end is None:
        return None
    if (last - first) % _DAY_SECONDS < seconds or (end - last) % _DAY_SECONDS >= _PATIENT_SECONDS:
        return None
    return failed[-1][1]


def _seconds(line: str) -> int | None:
    """The time of day of a line in klog's format."""
    found = _TIME.match(line)
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) if found else None
