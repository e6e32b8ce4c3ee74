"""What others do to a cluster during a run, and how the run ends: `make docs` makes the table of docs/charts.md.

Each case is a test of tests/soak/test_others_at_work.py. `make soak PART=others` records when, at which commit and how
long each ran last, and whether it passed; `python -m scripts.soak others -k WORDS` those that pytest selects by these
words.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ["CASES", "RESULTS", "Case", "Seen", "page_with_table", "read", "record", "seen_in", "table"]

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "bench/results/others.json"
_PAGE = REPOSITORY / "docs/charts.md"
_TABLE = re.compile(r"^\| another client \|.*?\n\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Case:
    """What another client does, how the run ends, and what its message names ("" for nothing)."""

    other: str
    ends: str
    names: str = ""


_GATES, _HELM = "StepApplied one", "StepStarted one pending-upgrade"
_APISERVER = "StepStarted kube-apiserver pending-upgrade"
_EITHER = "succeeds (0), or is rolled back (4)"
_UNNOTICED = "succeeds (0); no request fails"

CASES: Mapping[str, Case] = {
    "test_gitops_controller_reverts_a_release_of_the_users": Case(
        "applies the old objects of a release every two seconds", "is rolled back (4)", "`argocd-controller`"
    ),
    "test_gitops_controller_reverts_kube_apiserver": Case(
        "the same, of kube-apiserver in an upgrade", "is rolled back (4); no request fails", "`argocd-controller`"
    ),
    "test_deployment_is_edited_by_hand": Case(
        "edits a field that the release sets (`kubectl edit`)", "is rolled back (4)", "`kubectl-edit`"
    ),
    "test_pods_are_restarted_by_hand": Case("`kubectl rollout restart`", "succeeds (0); the restart stays"),
    "test_pod_is_deleted_by_hand": Case("deletes a pod while gates are checked", "succeeds (0)"),
    "test_pipeline_was_quicker_than_the_step": Case(
        "`helm upgrade` of a release before its step", "is rolled back (4); the other revision stays", "the revision"
    ),
    "test_pipeline_begins_before_the_step_does": Case(
        "still runs `helm upgrade` of a release when its step is due",
        "is rolled back (4); the other Helm goes on",
        "the release's status, `pending-upgrade`",
    ),
    "test_pipeline_upgrades_the_same_release_in_the_middle": Case(
        "`helm upgrade` of a release that the run has changed",
        "is rolled back (4); the other revision stays in the history",
        "another Helm process, and the revision",
    ),
    "test_policy_engine_changes_pods[adds a sidecar]": Case("a policy engine adds a container to each pod", _UNNOTICED),
    "test_policy_engine_changes_pods[takes images from a mirror]": Case(
        "a policy engine takes each pod's images from a mirror", _UNNOTICED
    ),
    f"test_laptop_that_sleeps_for_three_minutes[{_GATES}]": Case(
        "none, but the laptop sleeps for 180 s while gates are checked", _EITHER
    ),
    f"test_laptop_that_sleeps_for_three_minutes[{_HELM}]": Case(
        "none, but the laptop sleeps for 180 s while Helm is running", _EITHER
    ),
    "test_sleeps_until_its_lock_is_gone": Case(
        "`upgrader run` on another machine, while the laptop sleeps", "changes nothing more (130)", "the other run"
    ),
    f"test_vpn_that_drops_for_two_minutes[{_GATES}]": Case(
        "none, but the VPN is down for 120 s while gates are checked", _EITHER
    ),
    f"test_vpn_that_drops_for_two_minutes[{_HELM}]": Case(
        "none, but the VPN is down for 120 s while Helm is running", _EITHER
    ),
    f"test_vpn_that_drops_while_kube_apiserver_is_replaced[{_APISERVER}]": Case(
        "none, but the VPN is down for 120 s while Helm replaces kube-apiserver", _EITHER
    ),
}


@dataclass(frozen=True)
class Seen:
    """When a case ran last, at which commit, and the seconds of the test without its preparations."""

    date: str
    commit: str
    seconds: int
    failed: bool = False


def read(file: Path = RESULTS) -> dict[str, Seen]:
    """Test → when it ran last."""
    found = json.loads(file.read_text()) if file.exists() else {}
    return {name: Seen(**each) for name, each in found.items() if name in CASES}


def seen_in(junit: Path, date: str, commit: str) -> dict[str, Seen]:
    """The cases that ran by this file of pytest; none where it wasn't written."""
    found = {}
    for case in ET.parse(junit).iter("testcase") if junit.exists() else ():  # noqa: S314 - our own pytest wrote it
        name, outcomes = case.get("name", ""), {child.tag for child in case}
        if name in CASES and "skipped" not in outcomes:
            failed = not outcomes.isdisjoint({"failure", "error"})
            found[name] = Seen(date, commit, round(float(case.get("time", 0))), failed)
    return found


def record(new: Mapping[str, Seen], file: Path = RESULTS) -> None:
    """In place of what was known of these cases."""
    seen = {**read(file), **new}
    text = json.dumps({name: asdict(seen[name]) for name in CASES if name in seen}, indent=1)
    file.write_text(f"{text}\n")


def table(seen: Mapping[str, Seen]) -> str:
    """The table of the page."""
    lines = ["| another client | the run | the message names | seconds | date |", "|---|---|---|---|---|"]
    for name, case in CASES.items():
        known = seen.get(name)
        when = f"{known.seconds} | {known.date} (`{known.commit}`)" if known else "– | not recorded yet"
        ends = f"**failed the last time**; expected: {case.ends}" if known and known.failed else case.ends
        lines.append(f"| {case.other} | {ends} | {case.names or '–'} | {when} |")
    return "\n".join([*lines, "", ""])


def page_with_table(page: str, seen: Mapping[str, Seen]) -> str:
    """The page, with its table as it should be."""
    return _TABLE.sub(lambda _: table(seen), page, count=1)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"others_at_work takes no arguments: {' '.join(sys.argv[1:])}")
    _PAGE.write_text(page_with_table(_PAGE.read_text(), read()))
