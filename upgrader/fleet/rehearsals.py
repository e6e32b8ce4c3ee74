"""Whether a cluster was rehearsed, as far as its folder and its API server say, before a campaign begins its run.

The run itself asks again, and also compares the installed releases and what charts render to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from upgrader import __version__
from upgrader.app.rehearsal_records import folder_seal, read_record, rehearsal_time
from upgrader.config.load import load_settings
from upgrader.config.yaml_document import typed
from upgrader.fleet.clusters import Answer
from upgrader.model.rehearsal_record import KnownRehearsal, RehearsalRecord
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.rehearsal_record import rehearsal_findings

__all__ = ["unrehearsed"]


def unrehearsed(folder: Path, digest: str, answer: Answer, target: KubernetesVersion, now: datetime) -> str:
    """Why a cluster's policy.rehearsal lets no run to the target begin, and the command that does; "" for none.

    `digest` is of the folder's approved files. One that is at the target already needs none. Raises UsageError and
    ConfigError.
    """
    policy = load_settings(folder, {}).rehearsal
    if answer.version == target:
        return ""

    def known() -> KnownRehearsal | None:
        found = read_record(folder)
        if found is None or found[0].binding.target != target:
            return None
        record = found[0]
        changed = tuple(_differences(record, digest, answer))
        return KnownRehearsal(rehearsal_time(record), record.controller, record.findings, changed)

    blocking = next((each for each in rehearsal_findings(policy, target, known, now) if each.blocking), None)
    if blocking is None:
        return ""
    if target.minors_after(answer.version) > 1:
        return (
            f"{blocking.title}: it runs {answer.version}, and only the next minor version can be rehearsed. Start a "
            "campaign to that version first"
        )
    why = f": {blocking.diagnosis}" if blocking.diagnosis else ""
    return f"{blocking.title}{why} Rehearse it: upgrader -C {typed(folder)} rehearse --to {target}"


def _differences(record: RehearsalRecord, digest: str, answer: Answer) -> Iterator[str]:
    now = replace(record.binding, tool_version=__version__, cluster_uid=answer.uid, current=answer.version)
    yield from record.binding.differences(now)
    if record.folder != folder_seal(digest, record.salt):
        yield "the folder's files have changed"
