"""Makes a control plane wrong in every known way, through `upgrader run`; writes docs/benchmarks/wrong-api.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.places import PAGES
from testkit.lab_cluster import OLD, LabCluster, make_cluster
from testkit.wrong_api import WRONG, WrongApi, seconds_until_healthy
from upgrader.errors import ApiError

__all__ = ["Row", "main", "page"]

_BLOCKED = 3
_WORDS = 400
"""Of a cause: what is wrong comes last in it."""
_PAGE = PAGES / "wrong-api.md"


@dataclass(frozen=True)
class Row:
    """What became of one wrong change."""

    name: str
    flags: str
    exit_code: int
    seconds: float
    """From the change in place to the end of its rollback."""
    run_seconds: float
    limit: float
    healthy: str
    """Empty, or why the cluster was not healthy afterwards."""
    cause: str

    harmless: bool = False
    blocked: bool = False
    """Whether a check must block the run before it changes anything."""

    @property
    def good(self) -> bool:
        """Whether it was rolled back in time, to a healthy cluster; what is harmless is none the worse for staying, and
        what a check must tell of was not begun.
        """
        if self.harmless:
            return self.exit_code == 0 and not self.healthy
        if self.blocked:
            return self.exit_code == _BLOCKED and not self.healthy
        return self.exit_code == 4 and self.seconds <= self.limit and not self.healthy


def page(rows: Sequence[Row], command: str, date: str) -> str:
    """The page with all of them."""
    lines = [
        "# An API server that answers and is wrong",
        "",
        f"Made by `{command}` on {date}, on a lab with one controller at {OLD}. Each row is one `upgrader run` with",
        "these flags in `extraArgs` of the release kube-apiserver, or other values of a release (JSON). Seconds count",
        "from the change in place to the end of its rollback.",
        "",
        "| wrong | flags | exit code | seconds | limit | run | healthy after it | what the run said |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            row.name,
            f"`{row.flags}`",
            str(row.exit_code),
            "–" if row.harmless or row.blocked else f"{row.seconds:.0f}",
            "–" if row.harmless or row.blocked else f"{row.limit:.0f}",
            f"{row.run_seconds:.0f}",
            row.healthy or "yes",
            "harmless: nothing changed for any client" if row.harmless else row.cause.replace("|", "/"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    good = sum(row.good for row in rows)
    return "\n".join([*lines, "", f"{good} of {len(rows)} ended as they should, within their limit.", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if any of them did not end as it should."""
    parser = argparse.ArgumentParser(prog="python -m bench.wrong_api", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(WRONG), help="this one (repeatable); default: all")
    options = parser.parse_args(arguments)
    chosen = options.only or list(WRONG)
    with tempfile.TemporaryDirectory() as home:
        cluster = make_cluster(f"wrong-{os.getpid()}", Path(home))
        try:
            rows = [_try(cluster, name, WRONG[name]) for name in chosen]
        finally:
            cluster.down()
    command = " ".join(["python -m bench.wrong_api", *(f"--only '{name}'" for name in options.only or ())])
    text = page(rows, command, f"{datetime.now(UTC):%Y-%m-%d}")
    sys.stdout.write(text)
    if not options.only:
        _PAGE.write_text(text)
    return 0 if all(row.good for row in rows) else 1


def _try(cluster: LabCluster, name: str, wrong: WrongApi) -> Row:
    cluster.restore_files()
    wrong.prepare(cluster)
    with wrong.beside(cluster):
        if wrong.before:
            cluster.change_values(wrong.release, {"extraArgs": dict(wrong.before)})
            _must_succeed(cluster)
        # A standby pod that still drains, of a boot or of the row before, can't be started until it has ended.
        cluster.wait_until_settled(OLD)
        cluster.change_values(wrong.release, wrong.values)
        ended = cluster.run(OLD, skip="" if wrong.blocked else wrong.told)
        try:
            cluster.wait_healthy(OLD)
            healthy = ""
        except (AssertionError, ApiError) as error:
            healthy = " ".join(str(error).split())
    flags = " ".join(f"--{flag}={value}" for flag, value in wrong.flags.items()) or json.dumps(wrong.others)
    try:
        seconds = 0.0 if wrong.blocked else seconds_until_healthy(cluster, wrong.release)
    except IndexError:
        seconds = float("inf")
    # Its last words: `Error: The run failed …`, and in the next line why.
    cause = ended.stderr.rpartition("\nError: ")[2].partition("\n")[2].partition("\n")[0].strip()[:_WORDS]
    row = Row(
        name,
        flags,
        ended.exit_code,
        seconds,
        ended.seconds,
        wrong.seconds,
        healthy,
        cause,
        wrong.harmless,
        wrong.blocked,
    )
    sys.stderr.write(f"{row}\n{ended.stderr}\n")
    if healthy or ended.exit_code not in (4, _BLOCKED) or wrong.before:
        cluster.restore()
    return row


def _must_succeed(cluster: LabCluster) -> None:
    ended = cluster.run(OLD)
    if ended.exit_code:
        raise SystemExit(f"the run before failed: {ended.stderr}")


if __name__ == "__main__":
    sys.exit(main())
