"""`make soak`: what takes hours, by parts, and the page of what each part said last.

`python -m scripts.soak [PART…]` says what the parts will take by what they took last, and runs their pieces, commands
and test files, one after the other. Each piece is recorded in `bench/results/soak.json` as soon as it has ended: when,
at which commit and version, the seconds, and what failed; so a soak that is interrupted keeps what it has shown, and
`PART/PIECE` runs a single one. A piece that fails doesn't keep the next from running. `--page` prints `docs/soak.md`
instead, which is made from that file; there a result that is older than the release before this version is marked, as
its code has been changed since.

`PART… -k WORDS` runs only the tests of these parts that pytest selects by the words, and no commands. That says nothing
of a piece, and records none. What the cases of others_at_work did is recorded in either case.

ROUNDS and CONTROLLERS of the environment are those of the repeated upgrades.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from scripts import others_at_work
from upgrader import __version__

__all__ = [
    "PARTS",
    "RESULTS",
    "Part",
    "Result",
    "chosen",
    "commit_of",
    "failed_in",
    "outdated",
    "page",
    "promised",
    "read_results",
    "record",
]

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "bench/results/soak.json"
_NOTHING_SELECTED = 5
"""pytest's exit code."""
_CHANGELOG = REPOSITORY / "CHANGELOG.md"
_RELEASE = re.compile(r"^## \[?v?(\d+\.\d+\.\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """`tests` are names in tests/soak, without `test_` and `.py`; `commands` are run before them, as `python -m` runs
    them, with {rounds} and {controllers}.
    """

    about: str
    tests: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        """In the order in which they run."""
        return (*self.commands, *self.tests)


PARTS: Mapping[str, Part] = {
    "upgrades": Part(
        "Upgrades and rollbacks under load, repeated; over several minors, of older versions, with emulation",
        ("several_minors", "older_versions", "checks_of_older_versions", "emulation", "storage_migration", "unkind"),
        (
            "pytest -m soak tests/e2e/test_zero_outage.py",
            "bench.soak --rounds {rounds} --controllers {controllers}",
        ),
    ),
    "kills": Part(
        "Runs, Helm and labs that are killed or stopped at every moment, power cuts, rivals, a wrong clock",
        (
            "killed_at_every_moment",
            "killed_helm",
            "killed_renewal",
            "lock",
            "orphaned_helm",
            "playbook_elsewhere",
            "power_cut",
            "stopped",
            "abandoned_release",
            "rivals",
            "operators_clock",
            "interrupted_lab",
            "snapshot",
        ),
        ("pytest -m every_moment tests/unit", "bench.recovery --only none --cuts {rounds}"),
    ),
    "checkpointer": Part(
        "The pod-checkpointer: Secrets, images, its commands, power cuts in its own rollout",
        ("checkpointer", "checkpointer_power_cuts"),
    ),
    "faults": Part(
        "Changes that can't work; a control plane that is broken, deleted or returned to kubeadm; network outages",
        (
            "adopted_again",
            "bad_changes",
            "broken_pod_network",
            "edited_by_hand",
            "etcd_that_ends",
            "failed_adoption",
            "faults",
            "given_back",
            "manifests_deleted",
            "memory_limit",
            "old_style_daemonset",
            "planted_secrets",
            "recover_wrong_api",
            "rollback",
            "wrong_api",
        ),
        ("pytest -m soak tests/e2e/test_bad_input.py tests/e2e/test_releases.py tests/e2e/test_trial.py",),
    ),
    "others": Part(
        "Other clients that change the cluster during a run: GitOps, CI, policies, people; a laptop that sleeps, a VPN",
        ("others_at_work",),
    ),
    "certificates": Part(
        "New CAs and their rollback; certificates that other tools replace",
        ("ca_rotation", "rotated_ca", "replaced_certificate", "replaced_client_ca"),
        ("pytest -m soak tests/e2e/test_certs.py",),
    ),
    "controllers": Part(
        "Another etcd image; three controllers: etcd, backups, controllers that leave, join or are down, a virtual IP",
        (
            "backup_of_three",
            "controller_that_is_down",
            "controllers_change",
            "etcd_of_three",
            "etcd_patch",
            "lab_of_three",
            "virtual_ip",
        ),
    ),
    "nodes": Part(
        "Upgrades of nodes, and what goes wrong in them",
        (
            "lab_of_workers",
            "node_faults",
            "node_packages",
            "nodes_of_one_hop",
            "refused_node_upgrades",
            "surge",
            "upgraded_node_playbooks",
            "worker_reboots",
            "worker_that_is_down",
        ),
    ),
    "fleet": Part(
        "Fleets: what a campaign decides, in 100,000 random histories; two clusters upgraded by Jobs of a third",
        ("fleet_histories", "fleet_killed", "fleet_jobs"),
        ("pytest -m soak tests/contract/test_fleet_jobs.py",),
    ),
    "guard": Part(
        "guard on real machines, and its tutorials; guard without each of its permissions",
        ("guard_on_a_lab", "guard_pages"),
        ("pytest -m soak tests/contract/guard",),
    ),
    "kinds": Part("Kinds of clusters, each from its adoption to a recovery", ("kinds",)),
    "copies": Part(
        "A cluster's copy, and a lab made from it; rehearsals on another machine, and killed ones",
        ("lab_like_a_cluster", "rehearsal_elsewhere"),
        ("bench.rehearsal_kills",),
    ),
    "pages": Part(
        "The commands and output in the documentation; releases, registries and mirrors; reports in a browser",
        (
            "ci_jobs_of_a_merge",
            "docs_site",
            "images",
            "install_to_recovery",
            "mirror",
            "private_registry",
            "release_signing",
            "report_pages",
            "same_bytes",
            "tutorial",
        ),
    ),
}


@dataclass(frozen=True)
class Result:
    """What some pieces of a part said last. `failed`: tests and commands; `commit` ends in "+" where files differed."""

    pieces: tuple[str, ...]
    date: str
    commit: str
    version: str
    seconds: int
    failed: tuple[str, ...]


def read_results(file: Path = RESULTS) -> dict[str, tuple[Result, ...]]:
    """Part → its results, the newest last; none before the first."""
    found = json.loads(file.read_text()) if file.exists() else {}
    return {
        name: tuple(Result(**{**each, "pieces": tuple(each["pieces"]), "failed": tuple(each["failed"])}) for each in of)
        for name, of in found.items()
    }


def record(name: str, result: Result, file: Path = RESULTS) -> None:
    """Add a result to those of a part, without the older ones whose pieces have all been run again since."""
    results = read_results(file)
    results[name] = _last((*results.get(name, ()), result))
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = {each: [asdict(one) for one in results[each]] for each in sorted(results)}
    file.write_text(f"{json.dumps(rows, indent=1)}\n")


def _last(results: Sequence[Result]) -> tuple[Result, ...]:
    """Those that say something of a piece that no later one says anything of."""
    kept: list[Result] = []
    seen: set[str] = set()
    for each in reversed(results):
        if not seen.issuperset(each.pieces):
            kept.append(each)
        seen.update(each.pieces)
    return tuple(reversed(kept))


def promised(chosen: Mapping[str, Sequence[str]], results: Mapping[str, Sequence[Result]]) -> str:
    """What these pieces of parts will take, by what they took last."""
    known: dict[str, int] = {}
    unknown: list[str] = []
    for name, pieces in chosen.items():
        last = [each for each in results.get(name, ()) if set(each.pieces) <= set(pieces)]
        missing = set(pieces).difference(*(each.pieces for each in last)) if last else set(pieces)
        if last:
            known[name] = sum(each.seconds for each in last)
        if missing:
            unknown.append(name if missing == set(PARTS[name].pieces) else f"{name} ({_named(name, missing)})")
    told = [f"about {_duration(sum(known.values()))} for {', '.join(known)}"] if known else []
    if unknown:
        told.append(f"not recorded yet: what {', '.join(unknown)} will take (hours, all together)")
    return "; ".join(told)


def _named(part: str, pieces: set[str]) -> str:
    return ", ".join(each for each in PARTS[part].pieces if each in pieces)


def outdated(of: str, releases: Sequence[str], present: str) -> bool:
    """Whether a result of version `of` is older than the release before the present version.

    `releases` are those of the changelog, the newest first. What is under development counts as its own version.
    """
    newest = [present, *(each for each in releases if each != present)]
    return of not in newest[:2]


def page(results: Mapping[str, Sequence[Result]], releases: Sequence[str], present: str = __version__) -> str:
    """The text of docs/soak.md."""
    rows = [
        f"| `{name}` | {part.about} | {_said(name, results.get(name, ()), releases, present)} |"
        for name, part in PARTS.items()
    ]
    return "\n".join([_HEAD, *rows, ""])


def _said(name: str, results: Sequence[Result], releases: Sequence[str], present: str) -> str:
    """What a part said last: a cell of the page."""
    if not results:
        return "not recorded yet"
    failed = [each for result in results for each in result.failed]
    outcome = f"**failed**: {', '.join(failed)}" if failed else "passed"
    dates = sorted({each.date for each in results})
    on = f"on {dates[0]}" if len(dates) == 1 else f"between {dates[0]} and {dates[-1]}"
    commits = ", ".join(f"`{each}`" for each in dict.fromkeys(result.commit for result in results))
    versions = ", ".join(dict.fromkeys(each.version for each in results))
    of = "version" if "," not in versions else "versions"
    said = f"{outcome} in {_duration(sum(each.seconds for each in results))} {on} ({commits}, {of} {versions})"
    if missing := set(PARTS[name].pieces).difference(*(each.pieces for each in results)):
        said += f"; not recorded yet: {_named(name, missing)}"
    if any(outdated(each.version, releases, present) for each in results):
        said += f"; **outdated**, as {present} has changed since"
    return said


_HEAD = """# What takes hours

`make soak` runs the tests that take too long for `make test`: three controllers, rare faults, kills at every moment.
`make soak PART=guard` runs one part, `PART=guard/guard_pages` one of its test files. `make docs` generates this page
from `bench/results/soak.json`. A result that is older than the previous release is marked as outdated.

| part | what is tested | last result |
|---|---|---|"""


def releases_in(changelog: str) -> list[str]:
    """The versions that were released, the newest first."""
    return _RELEASE.findall(changelog)


def _duration(seconds: int) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"


def commit_of(repository: Path) -> str:
    """The commit that is tested, with "+" if files differ; results that earlier parts have recorded don't count."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=False).stdout

    made = (f":(exclude){path}" for path in (RESULTS.parent.relative_to(REPOSITORY), "docs/soak.md"))
    differs = git("status", "--porcelain", "--untracked-files=all", "--", ".", *made).strip()
    return git("rev-parse", "--short=12", "HEAD").strip() + ("+" if differs else "")


def _run_command(command: str) -> tuple[str, ...]:
    """The program if it failed."""
    values = {"rounds": os.environ.get("ROUNDS") or "10", "controllers": os.environ.get("CONTROLLERS") or "1"}
    environment = {**os.environ, "UPGRADER_EVERY_MOMENT": "1"}  # unit tests leave most out otherwise
    program = command.format(**values).split()
    done = subprocess.run([sys.executable, "-m", *program], cwd=REPOSITORY, env=environment, check=False)
    return (program[0],) if done.returncode else ()


def _run_tests(name: str, today: str, commit: str, words: str = "") -> tuple[str, ...]:
    """What failed of a file's tests; with `words`, of those that pytest selects by them.

    Each file runs in a process of its own: it has its cluster for itself, and its failure is its own.
    """
    testing = [sys.executable, "-m", "pytest", f"tests/soak/test_{name}.py"]
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "junit.xml"
        # Of another family, pytest warns of figures that a test records, and warnings are errors here.
        family = "--override-ini=junit_family=xunit1"
        recorded = [f"--junit-xml={junit}", family, "--override-ini=junit_duration_report=call"]
        selected = ["-k", words] if words else []
        code = subprocess.run([*testing, *selected, *recorded], cwd=REPOSITORY, check=False).returncode
        if seen := others_at_work.seen_in(junit, today, commit):
            others_at_work.record(seen)
        if code and not (words and code == _NOTHING_SELECTED):
            return tuple(f"test_{name}::{case}" for case in failed_in(junit)) or (f"test_{name}",)
    return ()


def failed_in(junit: Path) -> tuple[str, ...]:
    """The tests that failed, or couldn't be prepared, by this file of pytest; none if it wasn't written."""
    cases = ET.parse(junit).iter("testcase") if junit.exists() else ()  # noqa: S314 - our own pytest wrote it
    return tuple(case.get("name", "") for case in cases if {child.tag for child in case} & {"failure", "error"})


def chosen(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Part → the pieces to run, of `PART` and `PART/PIECE`; all of them without a name.

    Raises:
        ValueError: there is no such part, or no such piece of it

    """
    pieces: dict[str, tuple[str, ...]] = {}
    for each in names or list(PARTS):
        name, _, piece = each.partition("/")
        if name not in PARTS:
            raise ValueError(f"there is no part {name}; there are: {', '.join(PARTS)}")
        if piece and piece not in PARTS[name].pieces:
            raise ValueError(f"there is no {piece} in {name}; there are: {', '.join(PARTS[name].pieces)}")
        wanted = {*pieces.get(name, ()), *([piece] if piece else PARTS[name].pieces)}
        pieces[name] = tuple(known for known in PARTS[name].pieces if known in wanted)
    return pieces


def main() -> None:
    """Run the parts or pieces that are named, or all; or print the page."""
    if sys.argv[1:] == ["--page"]:
        print(page(read_results(), releases_in(_CHANGELOG.read_text())), end="")
        return
    names, words = sys.argv[1:], ""
    if "-k" in names[:-1]:
        at = names.index("-k")
        words = names.pop(at + 1)
        del names[at]
    try:
        parts = chosen(names)
    except ValueError as wrong:
        sys.exit(f"soak: {wrong}")
    print(f"soak: {promised(parts, read_results())}", flush=True)
    commit, failing = commit_of(REPOSITORY), False
    for name, pieces in parts.items():
        for piece in pieces:
            is_command = piece in PARTS[name].commands
            if is_command and words:
                continue
            print(f"\n=== soak: {name}/{piece}", flush=True)
            begun, today = time.monotonic(), f"{datetime.now(UTC):%Y-%m-%d}"
            failed = _run_command(piece) if is_command else _run_tests(piece, today, commit, words)
            failing = failing or bool(failed)
            if failed or words:
                print(f"soak: failed: {', '.join(failed) or 'nothing'}", flush=True)
            if not words:
                seconds = round(time.monotonic() - begun)
                record(name, Result((piece,), today, commit, __version__, seconds, failed))
    if not words:
        print(f"\nsoak: recorded in {RESULTS.parent.relative_to(REPOSITORY)}; `make docs` makes the pages from it")
    sys.exit(failing)


if __name__ == "__main__":
    main()
