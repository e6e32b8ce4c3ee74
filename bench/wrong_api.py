"""Makes a control plane wrong in every known way, through `upgrader run`, and records what became of each.

`bench/results/wrong-api.json` has the last result of each; `--page`, as `make docs` calls it, makes the table of
docs/benchmarks/wrong-api.md from that file, and leaves the page's text as it is. UPGRADER_LAB names the folder of an
adopted lab to use instead of a new one, as for tests; it is not removed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.places import PAGES, RESULTS
from bench.rehearsal.cases import CASES
from scripts.soak import commit_of
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, LabCluster, lent_cluster, make_cluster
from testkit.wrong_api import WRONG, WrongApi, seconds_until_healthy
from upgrader.errors import ApiError

__all__ = ["Row", "main", "page_with_table", "read", "record", "table"]

_REHEARSED = {"key lost": "lost key", "tokens' audience": "other audience"}
"""A row → its case among those of rehearsals, if that has another name."""
_BLOCKED = 3
_WORDS = 400
"""Of a cause: what is wrong comes last in it."""
_PAGE = PAGES / "wrong-api.md"
_FILE = RESULTS / "wrong-api.json"
_TABLE = re.compile(r"^\| wrong \|.*?\n\n.*?\n", re.MULTILINE | re.DOTALL)
"""With the line that counts the rows."""


@dataclass(frozen=True)
class Row:
    """What became of one wrong change."""

    name: str
    change: str
    exit_code: int
    seconds: float
    """From the change in place, or from its step's start where Helm still waited for it, to the end of its rollback."""
    run_seconds: float
    limit: float
    healthy: str
    """Empty, or why the cluster was not healthy afterwards."""
    cause: str

    load: str
    """The load averages of the beginning and of the end: other labs and tests share the machine's cores."""
    date: str
    commit: str
    """"" where it wasn't recorded."""
    harmless: bool = False
    blocked: bool = False
    """Whether a check must block the run before it changes anything."""
    named: bool = True
    """Whether the message has what it must name."""

    @property
    def good(self) -> bool:
        """Whether it was rolled back in time, to a healthy cluster; what is harmless is none the worse for staying, and
        what a check must tell of was not begun.
        """
        if self.harmless:
            return self.exit_code == 0 and not self.healthy
        if self.blocked:
            return self.exit_code == _BLOCKED and not self.healthy
        return self.exit_code == 4 and self.seconds <= self.limit and self.named and not self.healthy


def table(rows: Sequence[Row]) -> str:
    """The table of the page, and the line below it."""
    head = (
        "| wrong | change | named before by | exit code | seconds | limit | run | healthy after it | load | date | "
        "what the run said |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        untimed = row.harmless or row.blocked
        seconds = f"{row.seconds:.0f}" if row.seconds <= row.limit else f"**{row.seconds:.0f}**"
        code = str(row.exit_code) if row.good or row.exit_code == 4 else f"**{row.exit_code}**"
        cells = [
            row.name,
            row.change,
            _named_before(row),
            code,
            "–" if untimed or row.exit_code != 4 else seconds,
            "–" if untimed else f"{row.limit:.0f}",
            f"{row.run_seconds:.0f}",
            row.healthy or "yes",
            row.load or "–",
            row.date + (f" (`{row.commit}`)" if row.commit else ""),
            ("" if row.named else "**not named**: ") + row.cause.replace("|", "/")
            or ("harmless: nothing changed for any client" if row.harmless else "–"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    good = sum(row.good for row in rows)
    return "\n".join([*lines, "", f"{good} of {len(rows)} ended as they should, within their limit.", ""])


def _named_before(row: Row) -> str:
    """The ids of what finds it before anything is changed: of a check, and of a rehearsal that has the same case."""
    wrong, same = WRONG.get(row.name), CASES.get(_REHEARSED.get(row.name, row.name))
    checks = (wrong.told, wrong.warned) if wrong else ()
    rehearsals = dict.fromkeys(id_ for id_, _ in same.expected) if same else ()
    named = ", ".join(f"`{id_}`" for id_ in (*checks, *rehearsals) if id_)
    return named or ("–" if row.harmless else "nothing: the run finds it")


def page_with_table(page: str, rows: Sequence[Row]) -> str:
    """The page, with its table as it should be."""
    return _TABLE.sub(lambda _: table(rows), page, count=1)


def read(file: Path = _FILE) -> list[Row]:
    """The recorded rows, in the order of WRONG; those that it has no longer are left out."""
    found: Mapping[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return [Row(name, **found[name]) for name in WRONG if name in found]


def record(row: Row, file: Path = _FILE) -> None:
    """In place of what was known of it."""
    rows = {each.name: asdict(each) for each in (*read(file), row)}
    for each in rows.values():
        del each["name"]
    text = json.dumps({name: rows[name] for name in WRONG if name in rows}, indent=1, ensure_ascii=False)
    file.write_text(f"{text}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if any of them did not end as it should."""
    parser = argparse.ArgumentParser(prog="python -m bench.wrong_api", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(WRONG), help="this one (repeatable); default: all")
    parser.add_argument("--page", action="store_true", help="only make the page from what is recorded")
    options = parser.parse_args(arguments)
    if options.page:
        _PAGE.write_text(page_with_table(_PAGE.read_text(), read()))
        return 0
    commit, good = commit_of(REPOSITORY), True
    with _cluster() as cluster:
        for name in options.only or list(WRONG):
            row = _try(cluster, name, WRONG[name], commit)
            record(row)
            good = good and row.good
    return 0 if good else 1


@contextmanager
def _cluster() -> Iterator[LabCluster]:
    with tempfile.TemporaryDirectory() as home:
        if lent := os.environ.get("UPGRADER_LAB"):
            cluster = lent_cluster(Path(lent), Path(home))
            cluster.wait_until_settled(OLD)
            try:
                yield cluster
            finally:
                cluster.restore_files()
            return
        cluster = make_cluster(f"wrong-{os.getpid()}", Path(home))
        try:
            yield cluster
        finally:
            cluster.down()


def _try(cluster: LabCluster, name: str, wrong: WrongApi, commit: str) -> Row:
    load = os.getloadavg()[0]
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
    try:
        seconds = seconds_until_healthy(cluster, wrong.release) if ended.exit_code == 4 else 0.0
    except IndexError:
        seconds = float("inf")
    # Its last words: `Error: The run failed …`, and in the next line why. A run that succeeded has none.
    said = "" if ended.exit_code == 0 else ended.stderr.rpartition("\nError: ")[2]
    cause = said.partition("\n")[2].partition("\n")[0].strip()[:_WORDS]
    row = Row(
        name,
        wrong.change,
        ended.exit_code,
        seconds,
        ended.seconds,
        wrong.seconds,
        healthy,
        cause,
        f"{load:.0f}, {os.getloadavg()[0]:.0f}",
        f"{datetime.now(UTC):%Y-%m-%d}",
        commit,
        wrong.harmless,
        wrong.blocked,
        not wrong.names or any(text in ended.stderr for text in wrong.names),
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
