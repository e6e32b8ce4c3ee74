"""Example runs and their journals: good, rolled back, recovered, interrupted, of many nodes, and hostile.

Tests read them, and the screenshots of the documentation show them. A story is a list of (seconds since the beginning,
event); the texts are of the kind that real runs record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from testkit.fakes.clock import FakeClock
from upgrader.engine.journal.journal_file import Journal
from upgrader.engine.journal.record import Record
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.model.availability import Latency, Phase, Watches
from upgrader.model.availability_series import AvailabilitySeries, Kind, Sample
from upgrader.model.event import (
    AvailabilityMeasured,
    Event,
    GateChecked,
    GatePassed,
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    SkippedCheck,
    StepApplied,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
    Warned,
)
from upgrader.model.outcome import broken, holds, pending, unknown
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

__all__ = [
    "GOOD",
    "HOSTILE",
    "INTERRUPTED",
    "RECOVERED",
    "ROLLED_BACK",
    "RUN",
    "STUCK",
    "Story",
    "journal_of",
    "nodes_story",
    "series_of",
    "state_of",
]

Story = Sequence[tuple[float, Event]]

RUN = "20260101T000000-v1.37.1"
FROM, TO = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
STEPS = ("images", "pod-checkpointer", "kube-apiserver", "kubernetes", "kubeadm-config")
_GATES = {
    "images": (),
    "pod-checkpointer": ("daemonset/pod-checkpointer", "nodes", "checkpoint/kube-apiserver", "continuity"),
    "kube-apiserver": (
        "deployment/kube-apiserver",
        "apiserver",
        "checkpoint/kube-apiserver",
        "critical-pods",
        "continuity",
    ),
    "kubernetes": ("deployment/kube-controller-manager", "daemonset/kube-proxy", "deployment/coredns", "continuity"),
    "kubeadm-config": ("kubeadm-config",),
}
_SUMMARIES = {
    "images": "pre-pull 5 images",
    "pod-checkpointer": "nothing to change; its gates are checked",
    "kube-apiserver": "kube-apiserver: v1.36.3 → v1.37.1 (4 objects)",
    "kubernetes": "kube-controller-manager, kube-proxy, kube-scheduler: v1.36.3 → v1.37.1 (3 objects)",
    "kubeadm-config": "kubernetesVersion: v1.36.3 → v1.37.1",
}
_POINTS = {
    "kube-apiserver": RestorePoint("kube-apiserver", "kube-system", 4),
    "kubernetes": RestorePoint("kubernetes", "kube-system", 3),
    "kubeadm-config": RestorePoint(kubeadm=FROM),
}
_FLAG = (
    "container kube-apiserver of pod kube-apiserver-6c9f7d5b8-x2x7q on controller-1 exits at once (exit code 1)",
    "I0101 00:00:31.512894       1 options.go:263] external host was not specified, using 192.168.77.11",
    "Error: unknown flag: --enable-the-impossible",
    "Usage:\n  kube-apiserver [flags]",
)
_REMEDY = "Remove `enable-the-impossible` from extraArgs in values/kube-apiserver.yaml: v1.37.1 has no such flag."


def _begin(steps: tuple[str, ...] = STEPS, **more: object) -> RunStarted:
    return RunStarted(RUN, RunKind.UPGRADE, steps, f"runs/{RUN}", TO, FROM, goal=TO, **more)  # type: ignore[arg-type]


def _step(name: str, at: float, apply: float, gates: float) -> list[tuple[float, Event]]:
    """A step that passes."""
    story: list[tuple[float, Event]] = [
        (at, StepStarted(name, _SUMMARIES[name], _POINTS.get(name), name == "images")),
        (at + apply, StepApplied(name, apply, 5 if _POINTS.get(name) and _POINTS[name].release else 0)),
    ]
    for number, gate in enumerate(_GATES[name]):
        held = gates * (number + 2) / (len(_GATES[name]) + 1)
        story.append((at + apply + 0.4, GateChecked(name, gate, pending("1 of 2 updated pods are Ready"), 0, 3, 290.0)))
        story.append((at + apply + held, GatePassed(name, gate, held, 3 + number)))
    return [*story, (at + apply + gates * 1.01, StepEnded(name, "passed", apply + gates))]


def _measured(failed: int, *phases: Phase, gap: float, failures: tuple[str, ...] = ()) -> AvailabilityMeasured:
    total = sum(phase.requests for phase in phases)
    latency = Latency(2.1, 4.8, 31.0, 88.0, gap)
    return AvailabilityMeasured(total, failed, failed + 2, gap, failures, (), latency, Watches(412, 0, 0, 3), phases)


GOOD: Story = [
    (
        0.0,
        _begin(
            warnings=(
                Warned(
                    "backup.none",
                    "no backup is taken: backup.recipients is not set",
                    "",
                    "Set backup.recipients in upgrader.yaml.",
                ),
            ),
            skipped=(
                SkippedCheck("etcd.space", "etcd's database is 78 % of its quota", "defragmented on Friday, CHG-1042"),
            ),
        ),
    ),
    *_step("images", 1.0, 9.0, 0.2),
    *_step("pod-checkpointer", 10.4, 0.3, 5.0),
    *_step("kube-apiserver", 16.0, 21.0, 12.0),
    *_step("kubernetes", 50.0, 11.0, 9.0),
    (70.5, Note("kube-proxy was replaced on both nodes")),
    *_step("kubeadm-config", 71.0, 0.4, 1.2),
    (
        73.4,
        _measured(
            0,
            Phase("", 120, 0, 0, 44.0),
            Phase("images", 560, 0, 0, 60.0),
            Phase("pod-checkpointer", 330, 0, 0, 58.0),
            Phase("kube-apiserver", 2010, 0, 2, 131.0),
            Phase("kubernetes", 1260, 0, 0, 72.0),
            Phase("kubeadm-config", 130, 0, 0, 49.0),
            gap=131.0,
        ),
    ),
    (73.5, RunEnded(RUN, "succeeded", 73.5)),
]

ROLLED_BACK: Story = [
    (0.0, _begin()),
    *_step("images", 1.0, 9.0, 0.2),
    *_step("pod-checkpointer", 10.4, 0.3, 5.0),
    (16.0, StepStarted("kube-apiserver", _SUMMARIES["kube-apiserver"], _POINTS["kube-apiserver"])),
    (22.0, StepApplied("kube-apiserver", 6.0, 5)),
    (22.5, GateChecked("kube-apiserver", "nodes", holds("2 nodes are Ready"), 1, 3, 295.0)),
    (
        23.0,
        GateChecked(
            "kube-apiserver", "deployment/kube-apiserver", pending("0 of 1 updated pods are Ready"), 0, 3, 295.0
        ),
    ),
    (25.0, GatePassed("kube-apiserver", "nodes", 3.0, 3)),
    (
        27.5,
        GateChecked(
            "kube-apiserver", "checkpoint/kube-apiserver", unknown("controller-1 has not answered yet"), 0, 3, 290.0
        ),
    ),
    (
        28.0,
        GateChecked(
            "kube-apiserver", "deployment/kube-apiserver", broken(_FLAG[0], *_FLAG[1:], remedy=_REMEDY), 0, 3, 289.0
        ),
    ),
    (
        30.0,
        StepEnded(
            "kube-apiserver",
            "failed",
            14.0,
            "gate deployment/kube-apiserver failed after 8 s: "
            + "\n".join((_FLAG[0], *(f"  {line}" for line in _FLAG[1:]))),
            _REMEDY,
        ),
    ),
    (30.1, UndoStarted("kube-apiserver", "revision 4")),
    (
        33.0,
        GateChecked("kube-apiserver", "deployment/kube-apiserver", holds("1 of 1 updated pods is Ready"), 1, 3, 298.0),
    ),
    (35.0, GatePassed("kube-apiserver", "deployment/kube-apiserver", 2.0, 3)),
    (35.6, UndoEnded("kube-apiserver", True, 5.5)),
    (
        36.0,
        _measured(
            0,
            Phase("", 110, 0, 0, 41.0),
            Phase("images", 540, 0, 0, 63.0),
            Phase("pod-checkpointer", 330, 0, 0, 52.0),
            Phase("kube-apiserver", 850, 0, 1, 96.0),
            Phase("undo kube-apiserver", 330, 0, 1, 88.0),
            gap=96.0,
        ),
    ),
    (
        36.1,
        RunEnded(
            RUN,
            "rolled-back",
            36.1,
            "kube-apiserver: gate deployment/kube-apiserver failed after 8 s: " + "\n".join(_FLAG[:3]),
        ),
    ),
]

RECOVERED: Story = [
    *ROLLED_BACK[:-9],
    (
        28.0,
        GateChecked(
            "kube-apiserver",
            "deployment/kube-apiserver",
            unknown("the API does not answer: connection refused by 192.168.77.11:6443"),
            0,
            3,
            289.0,
        ),
    ),
    (
        58.0,
        StepEnded(
            "kube-apiserver",
            "failed",
            42.0,
            "the API has not answered for 30 s: connection refused by 192.168.77.11:6443",
            "Find out why kube-apiserver exits; the notes below say what was found on controller-1.",
        ),
    ),
    (58.1, UndoStarted("kube-apiserver", "revision 4")),
    (58.2, RecoveryStarted("connection refused by 192.168.77.11:6443")),
    (60.0, Note("controller-1: kube-apiserver exits at once: unknown flag: --enable-the-impossible")),
    (61.0, Note("controller-1: the standby pod of kube-apiserver is started from the checkpoint of revision 4")),
    (76.0, RecoveryEnded(True, 17.8)),
    (88.0, GatePassed("kube-apiserver", "deployment/kube-apiserver", 6.0, 3)),
    (89.0, UndoEnded("kube-apiserver", True, 30.9)),
    (
        89.5,
        _measured(
            2096,
            Phase("", 110, 0, 0, 41.0),
            Phase("images", 540, 0, 0, 63.0),
            Phase("pod-checkpointer", 330, 0, 0, 52.0),
            Phase("kube-apiserver", 2480, 1498, 1498, 47800.0),
            Phase("undo kube-apiserver", 1850, 598, 598, 47800.0),
            gap=47800.0,
            failures=(
                "2026-01-01T00:00:28.120Z kept GET / at 192.168.77.11:6443 (during kube-apiserver): connection reset",
                "2026-01-01T00:00:28.140Z new GET / at 192.168.77.11:6443 (during kube-apiserver): connection refused",
            ),
        ),
    ),
    (
        90.0,
        RunEnded(
            RUN,
            "rolled-back",
            90.0,
            "kube-apiserver: the API has not answered for 30 s: connection refused by 192.168.77.11:6443",
        ),
    ),
]

STUCK: Story = [
    *ROLLED_BACK[:-6],
    (30.1, UndoStarted("kube-apiserver", "revision 4")),
    (
        152.0,
        UndoEnded(
            "kube-apiserver",
            False,
            122.0,
            "release kube-apiserver can't be rolled back: etcdserver: mvcc: database space exceeded",
            "Free space in etcd (`etcdctl defrag`), then disarm the alarm.",
        ),
    ),
    (
        152.5,
        RunEnded(
            RUN, "failed", 152.5, "kube-apiserver can't be rolled back: etcdserver: mvcc: database space exceeded"
        ),
    ),
]

INTERRUPTED: Story = [
    (0.0, _begin()),
    *_step("images", 1.0, 9.0, 0.2),
    *_step("pod-checkpointer", 10.4, 0.3, 5.0),
    (16.0, StepStarted("kube-apiserver", _SUMMARIES["kube-apiserver"], _POINTS["kube-apiserver"])),
    (37.0, StepApplied("kube-apiserver", 21.0, 5)),
    (
        38.0,
        GateChecked(
            "kube-apiserver", "deployment/kube-apiserver", pending("0 of 1 updated pods are Ready"), 0, 3, 295.0
        ),
    ),
    # The laptop's lid was closed; in the morning a colleague resumes the run, and their job is killed, too.
    (36000.0, RunResumed(RUN, "anna@build-7.corp.example (process 4711)")),
    (36003.0, StepInspected("kube-apiserver", True, "revision 5 is deployed", 5)),
    (
        36004.0,
        GateChecked("kube-apiserver", "deployment/kube-apiserver", holds("1 of 1 updated pods is Ready"), 1, 3, 295.0),
    ),
]

_EVIL = (
    "</pre></details><script>alert(1)</script><img src=x onerror=alert(2)>]]>&lt;`\x1b[2J\x00\ud800"
    " {{ 7*7 }} {% raw %} @all ::error::x"
)

HOSTILE: Story = [
    (
        0.0,
        RunStarted(
            _EVIL,
            RunKind.UPGRADE,
            (_EVIL, "b"),
            _EVIL,
            TO,
            FROM,
            skipped=(SkippedCheck(_EVIL, _EVIL, _EVIL),),
            warnings=(Warned(_EVIL, _EVIL, _EVIL, _EVIL),),
        ),
    ),
    (1.0, StepStarted(_EVIL, _EVIL, RestorePoint(_EVIL, _EVIL, 1))),
    (2.0, StepApplied(_EVIL, 1.0)),
    (3.0, GateChecked(_EVIL, _EVIL, broken(_EVIL, _EVIL, remedy=_EVIL), 0, 3, 1.0)),
    (4.0, StepEnded(_EVIL, "failed", 3.0, _EVIL, _EVIL)),
    (5.0, UndoStarted(_EVIL, _EVIL)),
    (6.0, UndoEnded(_EVIL, False, 1.0, _EVIL, _EVIL)),
    (6.5, Note(_EVIL)),
    (7.0, _measured(1, Phase(_EVIL, 10, 1, 1, 5.0), gap=5.0, failures=(_EVIL,))),
    (8.0, RunEnded(_EVIL, "failed", 8.0, _EVIL)),
]


def nodes_story(nodes: int, *, fails: int = 0) -> Story:
    """An upgrade of this many nodes in waves of their own, of which the last few fail."""
    names = tuple(f"nodes-workers-{number:03}" for number in range(1, nodes + 1))
    story: list[tuple[float, Event]] = [(0.0, _begin(names))]
    for number, name in enumerate(names):
        at = 2.0 + number * 70
        point = RestorePoint(nodes=(NodeBefore(f"worker-{number + 1:03}", FROM),))
        story += [
            (at, StepStarted(name, f"worker-{number + 1:03}: kubelet v1.36.3 → v1.37.1", point)),
            (at + 2, Note(f"worker-{number + 1:03}: cordoned, 14 pods evicted")),
            (at + 50, StepApplied(name, 50.0)),
            (at + 51, GateChecked(name, "node-return", pending("the kubelet has not registered yet"), 0, 3, 100.0)),
            (at + 60, GatePassed(name, "node-return", 10.0, 4)),
            (at + 62, GatePassed(name, "critical-pods", 12.0, 5)),
        ]
        ended = StepEnded(
            name, "failed", 65.0, "the kubelet doesn't start: exit status 1", "See `journalctl -u kubelet`."
        )
        story.append((at + 65, ended if number >= nodes - fails else StepEnded(name, "passed", 65.0)))
    return [*story, (2.0 + nodes * 70, RunEnded(RUN, "failed" if fails else "succeeded", 2.0 + nodes * 70))]


def state_of(story: Story) -> RunState:
    """The state of a run, as the fold of its journal returns it."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    records = (Record(number, began + timedelta(seconds=at), event) for number, (at, event) in enumerate(story))
    return fold(records)


def journal_of(story: Story, folder: Path, run: str = RUN) -> Path:
    """Write the story as the journal of a run in a cluster folder; returns the run's folder."""
    path = folder / "runs" / run / "journal.jsonl"
    path.parent.mkdir(parents=True)
    clock = FakeClock()
    journal = Journal(path, clock)
    for at, event in story:
        clock.sleep(at - clock.monotonic())
        journal.emit(replace(event, run=run) if isinstance(event, RunStarted) else event)
    journal.close()
    return path.parent


def series_of(
    story: Story, *, failing: tuple[float, float] = (0.0, 0.0), until: float | None = None
) -> AvailabilitySeries:
    """The measurement of each second of a story, while no process was missing; the API answers nothing in `failing`.

    Both are seconds since the beginning; `until` is when the prober ended.
    """
    began = datetime(2026, 1, 1, tzinfo=UTC)
    times = [at for at, _ in story]
    pauses = [(left, ended) for left, ended in pairwise(times) if ended - left > 1800]
    samples = []
    for second in range(int(min(times[-1], until if until is not None else times[-1])) + 1):
        if any(left < second < ended for left, ended in pauses):
            continue
        failed = 10 if failing[0] <= second < failing[1] else 0
        slowest = 0.0 if failed else 12.0 + (second * 37 % 50) + (second * 11 % 17 == 0) * 30
        kinds = {"get": Kind(4, 0, 8.0), "write": Kind(3, 0, slowest), "list": Kind(3, 0, 9.0)}
        if failed:
            kinds = {"get": Kind(0, 4, 0.0), "write": Kind(0, 3, 0.0), "list": Kind(0, 3, 0.0)}
        time = began + timedelta(seconds=second)
        samples.append(Sample(time, 1.0, 10, 10 - failed, failed, 0.0 if failed else 3.1, slowest, 0.0, kinds))
    return AvailabilitySeries(tuple(samples))
