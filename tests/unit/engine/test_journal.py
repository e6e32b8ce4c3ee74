"""The journal on disk, and the report that is folded from it."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from testkit.fakes.clock import FakeClock
from upgrader.engine.journal import journal_file, read_schema_2
from upgrader.engine.journal.decode import UnknownEvent, event_from
from upgrader.engine.journal.journal_file import Journal, JournalPlace, parse_journal, read_further, read_journal
from upgrader.engine.journal.json_schema import render
from upgrader.engine.journal.record import TEXT_CHARACTERS
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.report import report_json
from upgrader.errors import JournalError, UsageError
from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GateChecked,
    GatePassed,
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import pending
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion(1, 37, 1)

REPOSITORY = Path(__file__).parents[3]

STORY: tuple[Event, ...] = (
    RunStarted("r1", RunKind.UPGRADE, ("a", "b"), "/runs/r1", TARGET),
    StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 4)),
    StepApplied("a", 3.0),
    GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 10.0),
    GatePassed("a", "nodes", 2.0, 4),
    StepEnded("a", "passed", 5.0),
    StepStarted("b", "install", RestorePoint("b", "kube-system", None)),
    StepEnded("b", "failed", 1.0, "unknown flag"),
    UndoStarted("b", "not installed"),
    RecoveryStarted("connection refused"),
    RecoveryEnded(True, 12.0),
    UndoEnded("b", True, 1.0),
    UndoStarted("a", "revision 4"),
    UndoEnded("a", False, 1.0, "no"),
    AvailabilityMeasured(100, 0, 1, 80.5),
    RunEnded("r1", "failed", 9.0, "unknown flag"),
)


def write(path: Path, *events: Event) -> Path:
    """A journal of these events."""
    journal = Journal(path, FakeClock())
    for event in events:
        journal.emit(event)
    journal.close()
    return path


def test_report_tells_the_whole_story(tmp_path: Path) -> None:
    """The report has each step's outcome, its gates, what clients saw, and how the run ended."""
    report = json.loads(json.dumps(report_json(fold(read_journal(write(tmp_path / "journal.jsonl", *STORY))))))
    assert (report["kind"], report["target"]) == ("upgrade", "v1.37.1")
    assert [(step["name"], step["outcome"]) for step in report["steps"]] == [("a", "undo-failed"), ("b", "undone")]
    assert [step["restore_point"] for step in report["steps"]] == ["revision 4", "not installed"]
    assert [(step["reason"], step["undo_reason"]) for step in report["steps"]] == [("", "no"), ("unknown flag", "")]
    assert [(gate["name"], gate["outcome"]) for gate in report["steps"][0]["gates"]] == [("nodes", "passed")]
    assert (report["outcome"], report["reason"], report["complete"]) == ("failed", "unknown flag", True)
    assert [(item["outcome"], item["seconds"], item["reason"]) for item in report["recoveries"]] == [
        ("succeeded", 12.0, "connection refused")
    ]
    assert report["availability"]["longest_gap_ms"] == 80.5


def test_journal_of_schema_2_is_read() -> None:
    """A journal of an earlier version has the same state: versions, restore points, gates, a rollback begun."""
    state = fold(read_journal(Path(__file__).with_name("journal-of-schema-2.jsonl")))
    assert (state.kind, str(state.target), str(state.current)) == (RunKind.UPGRADE, "v1.37.1", "v1.36.3")
    assert [(step.name, step.phase, str(step.restore_point)) for step in state.steps] == [
        ("a", "passed", "revision 4"),
        ("b", "undoing", "not installed"),
    ]
    assert [(gate.name, gate.outcome) for gate in state.steps[0].gates] == [("nodes", "passed")]
    assert (state.rollback_to, state.rollback_by) == ("a", "anna")
    assert state.unknown == (), "every event of that schema has its name of today"


def test_gate_answers_of_schema_2_are_kept() -> None:
    """What a gate answered before an earlier version was cut off is in the report."""
    lines = Path(__file__).with_name("journal-of-schema-2.jsonl").read_bytes().splitlines(keepends=True)
    (gate,) = fold(parse_journal(b"".join(lines[:4]), "sample")).steps[0].gates
    assert (gate.outcome, gate.reason) == ("pending", "1 of 2")


@pytest.mark.parametrize(
    ("target", "kind"),
    [("adopt", "adopt"), ("adopt-undo", "adopt-undo"), ("recover", "recover"), ("v1.37.1", "upgrade")],
)
def test_run_kinds_of_schema_2(target: str, kind: str) -> None:
    """In earlier versions, the target named the command of other kinds of runs; no kind is told by its first letter."""
    name, data = read_schema_2.upgraded(
        "RunStarted", {"run": "r", "target": target, "steps": [], "folder": "", "came_from": ""}
    )
    began = event_from(name, data)
    assert isinstance(began, RunStarted)
    assert (began.kind, str(began.target or ""), began.current) == (kind, "v1.37.1" if kind == "upgrade" else "", None)


@pytest.mark.parametrize("target", [[], {}, 1, None])
def test_garbage_in_schema_2_is_refused(target: object) -> None:
    """A target that is no text is an error by the field's name, as any other damage is; None is no version."""
    data: dict[str, object] = {"run": "r", "target": target, "steps": [], "folder": ""}
    upgraded = read_schema_2.upgraded("RunStarted", data)
    if target is None:
        assert isinstance(event_from(*upgraded), RunStarted)
    else:
        with pytest.raises(ValueError, match=r"data\.target should be a Kubernetes version"):
            event_from(*upgraded)


def test_journal_of_schema_2_is_continued(tmp_path: Path) -> None:
    """A run that an earlier version began is resumed in its journal: the new lines continue the old ones."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(Path(__file__).with_name("journal-of-schema-2.jsonl").read_bytes())
    journal = Journal.reopen(path, FakeClock())
    journal.emit(UndoEnded("b", True, 1.0))
    journal.close()
    state = fold(read_journal(path))
    assert [step.phase for step in state.steps] == ["passed", "undone"]


def test_recovery_that_failed_says_why_and_one_that_was_cut_off_has_no_end(tmp_path: Path) -> None:
    """The end of a recovery replaces its beginning; without an end nothing is claimed."""
    begun = RecoveryStarted("connection refused")
    story = (STORY[0], begun, RecoveryEnded(False, 9.0, "etcd has lost its data"), begun)
    failed, cut_off = fold(read_journal(write(tmp_path / "journal.jsonl", *story))).recoveries
    assert (failed.outcome, failed.reason) == ("failed", "etcd has lost its data")
    assert (cut_off.outcome, cut_off.reason) == ("active", "connection refused")


@pytest.mark.parametrize("length", range(len(STORY)))
def test_every_beginning_of_a_journal_makes_a_report(tmp_path: Path, length: int) -> None:
    """However far a run got before it was killed, its journal folds, and says `interrupted`, never `succeeded`."""
    report = fold(read_journal(write(tmp_path / "journal.jsonl", *STORY[:length])))
    assert report.result == "interrupted"
    started = [event.step for event in STORY[:length] if isinstance(event, StepStarted)]
    assert [step.name for step in report.steps] == started


def test_step_that_was_cut_off_is_in_doubt(tmp_path: Path) -> None:
    """A step without an end is neither passed nor failed."""
    for length, phase in ((2, "applying"), (3, "gating")):
        state = fold(read_journal(write(tmp_path / f"{length}.jsonl", *STORY[:length])))
        assert state.steps[0].phase == phase


@pytest.mark.parametrize("tail", [b"", b'{"schema":3,"seq":14,"ti', b"\0" * 700], ids=["cut", "half a line", "zeros"])
def test_torn_last_line_is_passed_over(tmp_path: Path, tail: bytes) -> None:
    """A crash during a write loses that line and nothing else, whatever part of it is on disk."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    content = path.read_bytes()
    path.write_bytes(content + tail if tail else content[:-7])
    assert len(read_journal(path)) == len(STORY) - (not tail)
    journal = Journal.reopen(path, FakeClock())
    journal.emit(UndoEnded("b", True, 1.0))
    journal.close()
    assert read_journal(path)[-1].event == UndoEnded("b", True, 1.0), "the next process's records follow a whole line"


def changed(line: bytes) -> bytes:
    """The same line with one digit of its content changed."""
    return line.replace(b'"v1 ', b'"v3 ')


DAMAGES = {
    "garbage": (lambda lines: [*lines[:1], b"garbage\n", *lines[2:]], 2, "not a JSON object"),
    "changed": (lambda lines: [*lines[:1], changed(lines[1]), *lines[2:]], 2, "checksum is wrong"),
    "lost": (lambda lines: [*lines[:1], *lines[2:]], 2, "it is record 2 where record 1 should be"),
    "doubled": (lambda lines: [*lines[:2], *lines[1:]], 3, "it is record 1 where record 2 should be"),
    "newer schema": (lambda lines: [lines[0].replace(b'"schema":3', b'"schema":9')], 1, "schema 9"),
    "no checksum": (lambda lines: [lines[0][:-80] + b"}\n"], 1, "no checksum"),
}


@pytest.mark.parametrize(("damage", "number", "words"), DAMAGES.values(), ids=DAMAGES)
def test_damage_inside_is_refused_by_line(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], number: int, words: str
) -> None:
    """A journal that is damaged anywhere but at its end is refused, with the line and the damage."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(UsageError, match=rf"journal\.jsonl:{number}: .*{words}"):
        read_journal(path)


def test_line_of_another_journal_is_refused(tmp_path: Path) -> None:
    """A valid line from another run's journal doesn't pass: the chain of checksums is broken."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    other = write(
        tmp_path / "other.jsonl",
        RunStarted("r2", RunKind.UPGRADE, (), "/runs/r2", TARGET),
        *STORY[1:],
    )
    lines, strange = path.read_bytes().splitlines(keepends=True), other.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], strange[3], *lines[4:]]))
    with pytest.raises(UsageError, match=r"journal\.jsonl:4: .*checksum"):
        read_journal(path)


def sealed(name: str, data: dict[str, object], time: str = "2026-01-01T00:00:00Z") -> bytes:
    """A first line with a right checksum, as a newer version might write it."""
    fields = {"schema": 3, "seq": 0, "time": time, "type": name, "data": data}
    body = json.dumps(fields).encode()
    return body[:-1] + f',"checksum":"{hashlib.sha256(body).hexdigest()}"}}\n'.encode()


def test_unknown_type_is_named(tmp_path: Path) -> None:
    """A record that only a newer version knows doesn't hide the rest, and the report names its type."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(sealed("StepPostponed", {"step": "a"}))
    records = read_journal(path)
    assert [record.event for record in records] == [UnknownEvent("StepPostponed")]
    assert fold(records).unknown == ("StepPostponed",)


def test_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    """Nobody knows when that was, and it can't be compared with the other times."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(sealed("Note", {"text": "hello"}, "2026-01-01T00:00:00"))
    with pytest.raises(UsageError, match=r"journal\.jsonl:1: .*its time has no zone"):
        read_journal(path)


def test_unknown_field_is_passed_over(tmp_path: Path) -> None:
    """A field that a newer version added to a known record doesn't keep this one from reading it."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(sealed("Note", {"text": "hello", "colour": "blue"}))
    assert [record.event for record in read_journal(path)] == [Note("hello")]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("Note", {}, r"data\.text is missing"),
        ("Note", {"text": 1}, r"data\.text should be text"),
        ("StepApplied", {"step": "a", "seconds": True}, r"data\.seconds should be a number"),
        (
            "RunStarted",
            {"run": "r", "kind": "upgrade", "steps": ["a", 2], "folder": "/"},
            r"data\.steps\[1\] should be text",
        ),
        ("StepEnded", {"step": "a", "outcome": "great", "seconds": 1}, r"data\.outcome should be one of passed"),
        (
            "RunStarted",
            {"run": "r", "kind": "upgrade", "steps": [], "folder": "/", "target": "latest"},
            r"data\.target should be a Kubernetes version",
        ),
        ("RunStarted", {"run": "r", "kind": "v1", "steps": [], "folder": "/"}, r"data\.kind should be one of upgrade"),
        (
            "StepStarted",
            {"step": "a", "summary": "", "restore_point": {"revision": "4"}},
            r"restore_point\.revision should be",
        ),
    ],
)
def test_data_of_the_wrong_shape_is_refused(tmp_path: Path, name: str, data: dict[str, object], words: str) -> None:
    """A known record with invalid content is refused, with the field's name, never partly understood."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(sealed(name, data))
    with pytest.raises(UsageError, match=words):
        read_journal(path)


def test_journal_is_private(tmp_path: Path) -> None:
    """Only its owner can read a journal."""
    path = write(tmp_path / "journal.jsonl", *STORY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_events_are_on_disk_when_emit_returns(tmp_path: Path) -> None:
    """Another process sees an event as soon as `emit` has returned, with nothing flushed or closed."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, FakeClock())
    journal.emit(STORY[0])
    assert read_journal(path)[0].event == STORY[0]


def test_unchanged_answers_of_a_gate_are_written_once(tmp_path: Path) -> None:
    """A gate that gives the same answer a hundred times makes one line, not a hundred."""
    checks = [GateChecked("a", "nodes", pending("1 of 2"), 0, 3, float(left)) for left in range(100)]
    assert len(read_journal(write(tmp_path / "journal.jsonl", *checks))) == 1


def test_journal_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless notes and checks stop being written, with one note about it; how the steps ended is still written."""
    detail_bytes = 16 * TEXT_CHARACTERS
    monkeypatch.setattr(journal_file, "DETAIL_BYTES", detail_bytes)
    journal = Journal(tmp_path / "journal.jsonl", FakeClock())
    for number in range(26):
        journal.emit(Note(f"{number} " + "x" * 2 * TEXT_CHARACTERS))
    journal.emit(STORY[-1])
    journal.close()
    records = read_journal(tmp_path / "journal.jsonl")
    assert isinstance(records[-2].event, Note) and "further notes" in records[-2].event.text
    assert records[-1].event == STORY[-1]
    assert (tmp_path / "journal.jsonl").stat().st_size < detail_bytes + 2 * TEXT_CHARACTERS


@contextmanager
def small_disk() -> Iterator[None]:
    """This process can't write more than 440 bytes to a file; for a moment only, as pytest writes to files too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (440, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_stops_the_run_and_keeps_the_journal_whole(tmp_path: Path) -> None:
    """An event that can't be written is an error, again and again; what was written before stays valid."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, FakeClock())
    with small_disk():
        journal.emit(STORY[0])
        for event in STORY[1:3]:
            with pytest.raises(JournalError, match=r"journal\.jsonl can't be written"):
                journal.emit(event)
    assert [record.event for record in read_journal(path)] == [STORY[0]]
    assert path.read_bytes().endswith(b"\n"), "no half line is left"


def test_interrupt_in_the_middle_of_a_write_leaves_a_sound_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C during a write loses that record; later records follow a complete line."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, FakeClock())
    journal.emit(STORY[0])

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.emit(STORY[1])
    journal.emit(Note("on the way out"))
    assert [record.event for record in read_journal(path)] == [STORY[0], Note("on the way out")]


def test_text_that_is_no_unicode_is_kept(tmp_path: Path) -> None:
    """A path with bytes that are not UTF-8 is read back unchanged."""
    note = Note("folder \udcff → done")
    assert read_journal(write(tmp_path / "journal.jsonl", note))[0].event == note


def test_schema_is_current_and_real_journals_keep_to_it(tmp_path: Path) -> None:
    """The published JSON Schema is current, and each line of a journal with every type of event fits it."""
    published = (REPOSITORY / "docs/reference/journal.schema.json").read_text()
    assert published == render(), "run `make docs`"
    schema = json.loads(published)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    path = write(tmp_path / "journal.jsonl", *STORY, Note("hello"))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [error.message for line in lines for error in validator.iter_errors(line)] == []
    lines[1]["data"]["restore_point"]["revision"] = "4"
    assert not validator.is_valid(lines[1]), "a schema that anything fits would prove nothing"


def test_journal_that_grows_is_read_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each whole line once; damage is found, and named by its line, as if all were read at once."""
    whole = write(tmp_path / "whole", *STORY).read_bytes()
    path, place, found = tmp_path / "journal.jsonl", JournalPlace(), []
    lines = whole.splitlines(keepends=True)
    for end in range(0, len(whole) + 100, 100):  # also in the middle of lines
        path.write_bytes(whole[:end])
        records, place = read_further(path, place)
        found += [each.event for each in records]
    assert tuple(found) == STORY and place.size == len(whole)
    _, place = read_further(write(tmp_path / "two", *STORY[:2]), JournalPlace())
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b"nodes", b"nodez")]))
    with pytest.raises(UsageError, match=r"journal.jsonl:4: .* its checksum is wrong"):
        read_further(path, place)
    monkeypatch.setattr(journal_file, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="can't be read: it has more than 100 bytes"):
        read_further(path, place)


def test_journal_that_is_not_there(tmp_path: Path) -> None:
    """A missing journal is an error that names it."""
    with pytest.raises(UsageError, match=r"nowhere\.jsonl can't be read"):
        read_journal(tmp_path / "nowhere.jsonl")


def test_steps_of_earlier_versions_have_their_names_of_today(tmp_path: Path) -> None:
    """A run that an earlier version began is resumed: its own steps are found by what they are called now."""
    steps = ["etcd backup", "images", "flags and files", "kube-apiserver", "bake all gates"]
    path = tmp_path / "journal.jsonl"
    write(path, RunStarted("r", RunKind.UPGRADE, tuple(steps), "/c"), StepStarted("flags and files", "read", None))
    state = fold(read_journal(path))
    assert state.planned == ("backup", "images", "trial", "kube-apiserver", "bake")
    assert [step.name for step in state.steps if step.phase != "waiting"] == ["trial"]
