"""`make soak`: what takes hours, by parts, and the page of what each part said last.

`python -m scripts.soak [PART…]` says what the parts will take by what they took last, runs them one after the other,
and records each in `bench/results/soak.json`: when, at which commit and version, the seconds, and what failed. A part
that fails doesn't keep the next from running. `--page` prints `docs/soak.md` instead, which is made from that file;
there a result that is older than the release before this version is marked, as its code has been changed since.

`PART… -k WORDS` runs only the tests of these parts that pytest selects by the words, and no commands. That says nothing
of a part, and records none. What the cases of others_at_work did is recorded in either case.

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
        "Changes that can't work, a control plane that is broken, deleted or given back, a network that is gone",
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
    ),
    "others": Part(
        "Others who change the cluster meanwhile: GitOps, pipelines, policies, people; a laptop that sleeps, a VPN",
        ("others_at_work",),
    ),
    "certificates": Part(
        "New CAs and their undo, certificates that others replace",
        ("ca_rotation", "rotated_ca", "replaced_certificate", "replaced_client_ca"),
        ("pytest -m soak tests/e2e/test_certs.py",),
    ),
    "controllers": Part(
        "Another etcd; three controllers: labs, etcd, backups, controllers that leave, join or are down, a virtual IP",
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
    ),
    "guard": Part(
        "guard on real machines, and its tutorials; each right that it is given taken away once",
        ("guard_on_a_lab", "guard_pages"),
        ("pytest -m soak tests/contract/guard",),
    ),
    "kinds": Part("Kinds of clusters, each the whole way", ("kinds",)),
    "copies": Part(
        "A cluster's copy, and a lab like it, the whole way; rehearsals on another machine, and killed ones",
        ("lab_like_a_cluster", "rehearsal_elsewhere"),
        ("bench.rehearsal_kills",),
    ),
    "pages": Part(
        "What the documentation shows, typed; releases, registries and mirrors; reports in a browser",
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
    """What a part said last. `failed`: its tests and commands that did; `commit` ends in "+" where files differed."""

    date: str
    commit: str
    version: str
    seconds: int
    failed: tuple[str, ...]


def read_results(file: Path = RESULTS) -> dict[str, Result]:
    """Part → its last result; none before the first."""
    found = json.loads(file.read_text()) if file.exists() else {}
    return {name: Result(**{**each, "failed": tuple(each["failed"])}) for name, each in found.items()}


def record(name: str, result: Result, file: Path = RESULTS) -> None:
    """Replace the result of one part."""
    results = {**read_results(file), name: result}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{json.dumps({each: asdict(results[each]) for each in sorted(results)}, indent=1)}\n")


def promised(names: Sequence[str], results: Mapping[str, Result]) -> str:
    """What these parts will take, by what they took last."""
    known = [name for name in names if name in results]
    seconds = sum(results[name].seconds for name in known)
    told = [f"about {_duration(seconds)} for {', '.join(known)}"] if known else []
    unknown = [name for name in names if name not in results]
    if unknown:
        told.append(f"not recorded yet: what {', '.join(unknown)} will take (hours, all together)")
    return "; ".join(told)


def outdated(of: str, releases: Sequence[str], present: str) -> bool:
    """Whether a result of version `of` is older than the release before the present version.

    `releases` are those of the changelog, the newest first. What is under development counts as its own version.
    """
    newest = [present, *(each for each in releases if each != present)]
    return of not in newest[:2]


def page(results: Mapping[str, Result], releases: Sequence[str], present: str = __version__) -> str:
    """The text of docs/soak.md."""
    rows = []
    for name, part in PARTS.items():
        result = results.get(name)
        if result is None:
            said = "not recorded yet"
        else:
            outcome = "passed" if not result.failed else f"**failed**: {', '.join(result.failed)}"
            at = f"on {result.date} (`{result.commit}`, version {result.version})"
            said = f"{outcome} in {_duration(result.seconds)} {at}"
            if outdated(result.version, releases, present):
                said += f"; **outdated**, as {present} has changed since"
        rows.append(f"| `{name}` | {part.about} | {said} |")
    return "\n".join([_HEAD, *rows, ""])


_HEAD = """# What takes hours

`make soak` runs the tests that take too long for `make test`: three controllers, rare faults, kills at every moment.
`make soak PART=guard` runs one part. Each part records its results in `bench/results/soak.json`, from which `make docs`
generates this page. A result that is older than the previous release is marked as outdated.

| part | what it is about | what it said last |
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


def _run(part: Part, today: str, commit: str, words: str = "") -> tuple[str, ...]:
    """What failed of it; with `words`, of its tests that pytest selects by them."""
    values = {"rounds": os.environ.get("ROUNDS") or "10", "controllers": os.environ.get("CONTROLLERS") or "1"}
    environment = {**os.environ, "UPGRADER_EVERY_MOMENT": "1"}  # unit tests leave most out otherwise
    failed = []
    for command in () if words else part.commands:
        program = command.format(**values).split()
        if subprocess.run([sys.executable, "-m", *program], cwd=REPOSITORY, env=environment, check=False).returncode:
            failed.append(program[0])
    for name in part.tests:
        # Each file in a process of its own: it has its cluster for itself, and its failure is its own.
        testing = [sys.executable, "-m", "pytest", f"tests/soak/test_{name}.py"]
        with tempfile.TemporaryDirectory() as folder:
            junit = Path(folder) / "junit.xml"
            recorded = [f"--junit-xml={junit}", "--override-ini=junit_duration_report=call"]
            selected = ["-k", words] if words else []
            code = subprocess.run([*testing, *selected, *recorded], cwd=REPOSITORY, check=False).returncode
            if code and not (words and code == _NOTHING_SELECTED):
                failed += [f"test_{name}::{case}" for case in failed_in(junit)] or [f"test_{name}"]
            if seen := others_at_work.seen_in(junit, today, commit):
                others_at_work.record(seen)
    return tuple(failed)


def failed_in(junit: Path) -> tuple[str, ...]:
    """The tests that failed, or couldn't be prepared, by this file of pytest; none if it wasn't written."""
    cases = ET.parse(junit).iter("testcase") if junit.exists() else ()  # noqa: S314 - our own pytest wrote it
    return tuple(case.get("name", "") for case in cases if {child.tag for child in case} & {"failure", "error"})


def main() -> None:
    """Run the parts that are named, or all; or print the page."""
    if sys.argv[1:] == ["--page"]:
        print(page(read_results(), releases_in(_CHANGELOG.read_text())), end="")
        return
    chosen, words = sys.argv[1:], ""
    if "-k" in chosen[:-1]:
        at = chosen.index("-k")
        words = chosen.pop(at + 1)
        del chosen[at]
    names = chosen or list(PARTS)
    wrong = [name for name in names if name not in PARTS]
    if wrong:
        sys.exit(f"soak: there is no part {', '.join(wrong)}; there are: {', '.join(PARTS)}")
    print(f"soak: {promised(names, read_results())}", flush=True)
    commit, failing = commit_of(REPOSITORY), False
    for name in names:
        print(f"\n=== soak: {name}", flush=True)
        begun = time.monotonic()
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        failed = _run(PARTS[name], today, commit, words)
        failing = failing or bool(failed)
        if words:
            print(f"soak: failed: {', '.join(failed) or 'nothing'}", flush=True)
            continue
        record(name, Result(today, commit, __version__, round(time.monotonic() - begun), failed))
    print(f"\nsoak: recorded in {RESULTS.parent.relative_to(REPOSITORY)}; `make docs` makes the pages from it")
    sys.exit(failing)


if __name__ == "__main__":
    main()
