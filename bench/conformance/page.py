"""docs/conformance.md, made from bench/results/conformance.json."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from bench.conformance.record import Record

__all__ = ["WAYS", "page"]

WAYS = {
    "after": ("After the upgrade", "Conformance specs on the cluster that `upgrader run` has upgraded."),
    "during": (
        "During `upgrader run`",
        "Conformance specs, while `upgrader run` and `rollback` alternate.",
    ),
    "around": (
        "Set up before, verified after",
        "Upstream's upgrade tests: objects are set up at the old version, and verified after `upgrader run`.",
    ),
}
"""Name → title and explanation."""
_PASSED = "passed"
_SAID_CHARACTERS = 160
_DURING = "*(during: N of M)* counts the specs that overlapped with a run or rollback; it is omitted if all did."


def page(known: Mapping[str, Mapping[str, Record]], remarks: Mapping[str, str]) -> str:
    """The page, as Markdown; `known` is version → way → record, `remarks` are spec → cause of its failure."""
    lines = [_INTRODUCTION]
    for version in sorted(known, key=_number, reverse=True):
        lines += [f"## {version}", "", *_summary(known[version]), ""]
        for way, (title, words) in WAYS.items():
            if way in known[version]:
                lines += [f"### {title}, {version}", "", words, "", *_details(known[version][way], remarks)]
    return "\n".join(lines).rstrip() + "\n"


def _summary(ways: Mapping[str, Record]) -> list[str]:
    columns = ("when", "specs", "passed", "failed", "skipped by themselves", "left out", "not run")
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    for way, (title, _) in WAYS.items():
        if way in ways:
            states = Counter(spec["state"] for spec in ways[way]["specs"].values())
            failed = sum(states.values()) - states[_PASSED] - states["skipped"]
            left, run = len(ways[way]["left_out"]), sum(states.values())
            not_run = ways[way]["of"] - run - left
            cells = (title, ways[way]["of"], states[_PASSED], failed, states["skipped"], left, not_run)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _details(record: Record, remarks: Mapping[str, str]) -> list[str]:
    runs = (
        f"{command['date']}, {command['cores']} cores, {command['seconds'] / 60:.0f} min: {_run(command)}"
        for command in record["commands"]
    )
    lines = _wrapped(f"{'. '.join(runs)}.", "")
    specs = record["specs"]
    lines += ["", *_areas(specs), ""]
    failed = {name: spec for name, spec in specs.items() if spec["state"] not in (_PASSED, "skipped")}
    reasons = {name: _why(spec, remarks.get(name, "")) for name, spec in failed.items()}
    lines += _failed(reasons)
    skipped = sum(spec["state"] == "skipped" for spec in specs.values())
    others = {"skipped themselves, because they don't apply to such a cluster": skipped} if skipped else {}
    others |= {f"left out: {why}": count for why, count in Counter(record["left_out"].values()).items()}
    told = ". ".join(f"{count} {why}" for why, count in others.items())
    return [*lines, *_wrapped(f"{told}.", ""), ""] if others else lines


def _wrapped(words: str, begin: str = "- ") -> list[str]:
    """An entry of a list, or a paragraph (`begin` ""), in lines as long as those of other pages."""
    return textwrap.wrap(
        words,
        120,
        initial_indent=begin,
        subsequent_indent="  " if begin else "",
        break_long_words=False,
        break_on_hyphens=False,  # the names of images and options stay whole
    )


def _run(command: Mapping[str, Any]) -> str:
    begin = f"from {command['from']}"
    changes = command.get("changes") or ()
    for what in ("run", "rollback"):
        if found := [change for change in changes if change["what"] == what]:
            codes = ", ".join(str(code) for code in sorted({change["exit_code"] for change in found}))
            seconds = median(change["seconds"] for change in found)
            begin += f"; {len(found)} × `upgrader {what}`, {seconds:.0f} s (median), exit code {codes}"
    if refused := sum(change["refused"] for change in changes):
        begin += (
            f"; before that, checks refused it {refused} times, while a spec had broken a webhook or another object"
        )
    return begin + ("; only specs that match its `--focus`" if command.get("focus") else "")


def _areas(specs: Mapping[str, Any]) -> list[str]:
    """What passed of each SIG; of specs that overlapped with a command, too."""
    beside = any("at_work" in spec for spec in specs.values())
    told = []
    for area in sorted({_area(name) for name in specs}):
        found = [spec for name, spec in specs.items() if _area(name) == area and spec["state"] != "skipped"]
        meanwhile = [spec for spec in found if spec.get("at_work")]
        some = beside and len(meanwhile) < len(found)
        during = f" (during: {_passed(meanwhile)} of {len(meanwhile)})" if some else ""
        told.append(f"{area} {_passed(found)} of {len(found)}{during}")
    explained = f" {_DURING}" if any("(during: " in each for each in told) else ""
    return _wrapped(f"Passed: {', '.join(told)}.{explained}", "")


def _passed(found: list[Mapping[str, Any]]) -> int:
    return sum(spec["state"] == _PASSED for spec in found)


def _area(name: str) -> str:
    found = re.search(r"\[(sig-[a-z-]+)\]", name)
    return found[1] if found else "others"


def _failed(reasons: Mapping[str, str]) -> list[str]:
    if not reasons:
        return []
    entries = []
    for name, words in sorted(reasons.items()):
        entries += [f"- `{name}`:", *_wrapped(words, "  ")]
    return [f"Failed, and why ({len(reasons)}):", "", *entries, ""]


def _why(spec: Mapping[str, Any], remark: str) -> str:
    words = f"{spec['why']}. {_begin_of_message(spec)}".rstrip(" .")
    return f"{words}. **Cause:** {remark}." if remark else f"{words}."


def _begin_of_message(spec: Mapping[str, Any]) -> str:
    """In one line: what was expected, and what there was, are lines of their own. Without Markdown's or HTML's own."""
    words = " ".join(str(spec.get("message", "")).split())[:_SAID_CHARACTERS].rstrip()
    return f"Its message: {words.replace('<', '&lt;').replace('|', '&#124;')}" if words else ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


_INTRODUCTION = """\
# Kubernetes' own tests

`make conformance` runs Kubernetes' conformance suite and upgrade tests. The programs (`e2e.test`, `agnhost`) are built
from the module `k8s.io/kubernetes`; the cluster is a [lab](lab.md) with one controller and two workers. Each failed
spec is run again on that cluster, and on a cluster of the target version that kubeadm made and `upgrader` never
touched. [conformance.json](../bench/results/conformance.json) has each command and the result of each spec, and
[Contributing](../CONTRIBUTING.md#kubernetes-own-tests) the command's options.

The lab has no registry to pull from. Its images of agnhost, nginx and busybox are built from upstream's program and
from Debian's packages. Specs that need another image are *left out*. *Not run* counts the specs that no command
selected, or for which the time was too short.
"""
