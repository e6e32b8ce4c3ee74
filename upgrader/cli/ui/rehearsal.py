"""What a rehearsal did and found."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from upgrader.app.rehearsal import Rehearsed
from upgrader.cli.ui.findings import draw_findings, draw_verdict
from upgrader.cli.ui.terminal import console, show
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import minor_text
from upgrader.model.version import KubernetesVersion

__all__ = ["print_rehearsal"]


def print_rehearsal(rehearsed: Rehearsed, stream: TextIO | None = None) -> None:
    """Print it, with what was not shown by any request."""
    out, result, counts = console(stream), rehearsed.result, rehearsed.result.counts
    current = _version(rehearsed.current, rehearsed.current_emulates)
    where = f"{result.rehearsal_host}, with data of {result.controller}" if result.rehearsal_host else result.controller
    versions = f"{current} → {_version(rehearsed.target, rehearsed.target_emulates)}, on {where}"
    out.print("\n", Text.assemble((" Rehearsal ", "bold"), versions), "\n", sep="")
    if rehearsed.backup_taken is not None:
        out.print(
            f" The data comes from a backup taken at {rehearsed.backup_taken:%F %R %Z}. Later changes were not "
            "tested.\n"
        )
    if rehearsed.emulated_first is not None:
        out.print(
            " The target was tested as it runs after `upgrader finalize`, and not while it emulates "
            f"{minor_text(rehearsed.emulated_first)}.\n"
        )
    if rehearsed.findings:
        show(out, draw_findings(rehearsed.findings))
        out.print("\n", draw_verdict(rehearsed.findings, "different from today", "the same as today"), sep="")
    elif counts:
        out.print(Text(" ✔ the target reads and writes every object as the running version does", style="green"))
    if counts:
        out.print(
            f" {counts['objects']:,} objects: {counts['read']:,} reads, {counts['updated']:,} updates, "
            f"{counts['created']:,} creations and {counts['manifests']:,} manifests of Helm releases were compared in "
            f"{result.seconds:,.0f} s, with "
            f"{result.peak_bytes >> 20:,} MiB of memory at most"
        )
        if counts["requests"]:
            out.print(f" {counts['requests']:,} kinds of requests in the audit log were compared")
        if counts.get("unserved"):
            out.print(
                f" {counts['unserved']:,} kinds were not compared: the running version does not serve them on the "
                "copy (such as those of aggregated APIs)"
            )
        if counts["unproven"]:
            out.print(f" {counts['unproven']:,} of them prove nothing: the running version rejects them, too")
    out.print()


def _version(version: KubernetesVersion, emulates: Minor | None) -> str:
    return str(version) if emulates is None else f"{version} (emulates {minor_text(emulates)})"
