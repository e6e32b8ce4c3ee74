"""Writes the record of a rehearsal, and compares it with what is planned later."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from upgrader.app.run_inputs import inputs_digest
from upgrader.app.saved_plans import BoundPlan, bind, seal
from upgrader.app.wiring import Session
from upgrader.config.load import load_settings
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UsageError
from upgrader.model.finding import Finding
from upgrader.model.json_values import from_json, to_json
from upgrader.model.observed import Observed
from upgrader.model.rehearsal_record import KnownRehearsal, RehearsalRecord
from upgrader.steps.plan import Plan

__all__ = [
    "bind_rehearsal",
    "folder_inputs",
    "folder_seal",
    "forget_record",
    "known_rehearsal",
    "read_record",
    "rehearsal_time",
    "write_record",
]

_FILE = Path("runs") / "rehearsal.json"
"""In the cluster folder, beside the runs: no plan is bound to what is there."""
_FORMAT = "1"


def bind_rehearsal(session: Session, observed: Observed, plan: Plan, salt: str | None = None) -> BoundPlan:
    """What a rehearsal is of: the steps of upgrader.yaml, without those that a run adds, and their inputs. A bundle is
    only for one that a run adds.

    Raises UsageError where an input can't be read, or where no plan could be saved, and ApiError.
    """
    settings = session.settings
    session = replace(session, settings=replace(settings, images=replace(settings.images, bundle=None)))
    return bind(session, observed, replace(plan, before=(), after=()), None, settings.folder / _FILE, salt)


def folder_seal(digest: str, salt: str) -> str:
    """Of the digest of a folder's inputs, as the record has it: equal folders have different ones in each record."""
    return sha256(f"{salt} {digest}".encode()).hexdigest()


def write_record(
    session: Session, bound: BoundPlan, digest: str, controller: str, findings: Iterable[Finding], as_of: datetime
) -> None:
    """Write it, in place of the one before; `digest` is of the folder's inputs, as `bind_rehearsal` read them; `as_of`:
    of when the data was. Raises UsageError where that fails.
    """
    path = session.settings.folder / _FILE
    salt = bound.key.salt
    sealed = folder_seal(digest, salt)
    record = RehearsalRecord(_FORMAT, as_of.isoformat(), controller, salt, bound.binding, tuple(findings), sealed)
    content = to_json(record, mask=False)
    content["seal"] = seal(content, bound.key)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(f"the record of the rehearsal can't be written to {path}: {error.strerror}") from error


def forget_record(folder: Path) -> str:
    """Remove the record of an earlier rehearsal, in whose place there is none. Returns what remains, or ""."""
    path = folder / _FILE
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return f" {path}, which an earlier rehearsal wrote, can't be removed: {error.strerror}"
    return ""


def folder_inputs(folder: Path) -> str:
    """The digest of a cluster folder's inputs as they are now. Raises UsageError and ConfigError."""
    return inputs_digest(load_settings(folder, {}))


def read_record(folder: Path) -> tuple[RehearsalRecord, Mapping[str, Any]] | None:
    """The record in a cluster folder, and the whole content of its file; None where there is none. Raises ValueError
    for one that can't be used.
    """
    path = folder / _FILE
    try:
        content = json.loads(path.read_text())
        record: RehearsalRecord = from_json(RehearsalRecord, content, str(_FILE))
        if record.format_version != _FORMAT:
            raise ValueError(f"its format_version is {record.format_version}, not {_FORMAT}")
        rehearsal_time(record)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    except (UsageError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return record, content


def rehearsal_time(record: RehearsalRecord) -> datetime:
    """When it was. Raises ValueError for what is no time, or one without a time zone."""
    rehearsed = datetime.fromisoformat(record.rehearsed)
    if rehearsed.tzinfo is None:
        raise ValueError("its time has no time zone")
    return rehearsed


def known_rehearsal(session: Session, observed: Observed, plan: Plan) -> KnownRehearsal | None:
    """The newest rehearsal of this folder; None where there was none, or where it was to another version. Raises
    ValueError where its record can't be used, and ApiError.
    """
    path = session.settings.folder / _FILE
    found = read_record(session.settings.folder)
    if found is None or found[0].binding.target != plan.target:
        return None
    record, content = found
    try:
        now = bind_rehearsal(session, observed, plan, record.salt)
    except UsageError as error:
        raise ValueError(f"{path}: {error}") from error
    changed = list(record.binding.differences(now.binding))
    if record.binding.same_key(now.binding):
        # Only with the same key can anything be said of the rest.
        if not hmac.compare_digest(str(content.get("seal")), seal(content, now.key)):
            raise ValueError(f"{path} was changed after it was written: its seal doesn't match")
        changed += record.binding.changed_inputs(now.binding.inputs)
    elif not changed:
        changed.append("the pipeline's releases have changed")
    return KnownRehearsal(rehearsal_time(record), record.controller, record.findings, tuple(changed))
