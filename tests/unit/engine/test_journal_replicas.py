"""Journals outside the machine that runs the upgrade."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from tests.unit.engine.journals import OLDER, ONE, RESUMED, RUN, STARTED, Places, journal_of
from upgrader.engine.history.journal_in_secrets import SECRET_BYTES, SECRETS, ClusterReplicas, secret_name
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.engine.history.journal_replicas import JournalReplica, is_run
from upgrader.engine.journal.journal_file import DETAIL_BYTES, JOURNAL
from upgrader.errors import ApiError, ApiUnavailable, JournalError
from upgrader.model.event import GateChecked, Note, StepApplied
from upgrader.model.outcome import pending
from upgrader.ports import Kind, KubeObject

SYSTEM = "kube-system"


@pytest.fixture
def places() -> Places:
    return Places()


@pytest.fixture(params=["cluster", "controller"])
def copies(request: pytest.FixtureRequest, places: Places) -> JournalReplica:
    """A place of either kind."""
    return places.cluster if request.param == "cluster" else places.controllers[0]


def test_what_is_written_is_read_back(copies: JournalReplica, tmp_path: Path) -> None:
    """Byte for byte, under the run's own name, as often as the journal has grown."""
    short = journal_of(tmp_path / "1", RUN, STARTED)
    long = journal_of(tmp_path / "2", RUN, STARTED, StepApplied("a", 1.0))
    for content in (short, long, long):
        copies.write(RUN, content)
        assert copies.read(RUN) == content
    copies.write(OLDER, short)
    assert copies.names() == (OLDER, RUN)
    copies.remove(OLDER)
    copies.remove(OLDER)
    assert copies.names() == (RUN,)
    assert copies.read(OLDER) is None


def test_a_rivals_journal_is_never_replaced(places: Places, copies: JournalReplica, tmp_path: Path) -> None:
    """A laptop that wakes up after another machine has resumed its run can't overwrite that machine's records."""
    theirs = journal_of(tmp_path / "1", RUN, STARTED, RESUMED, StepApplied("a", 2.0))
    ours = journal_of(tmp_path / "2", RUN, STARTED, *[StepApplied("a", 1.0)] * 9)
    copies.write(RUN, theirs)
    laptop = ClusterReplicas(places.kube) if copies is places.cluster else copies
    with pytest.raises(JournalError, match="another machine has resumed it"):
        laptop.write(RUN, ours)
    assert copies.read(RUN) == theirs


def test_who_goes_on_replaces_what_was_left_behind(copies: JournalReplica, tmp_path: Path) -> None:
    """Records that only this place had when another machine resumed are outdated, and don't block later ones."""
    left = journal_of(tmp_path / "1", RUN, STARTED, *[Note("only here")] * 9)
    resumed = journal_of(tmp_path / "2", RUN, STARTED, RESUMED)
    copies.write(RUN, left)
    copies.write(RUN, resumed)
    assert copies.read(RUN) == resumed


def test_secret_says_what_it_is_for(places: Places, tmp_path: Path) -> None:
    """To whoever finds it in the cluster, and wonders whether it may be deleted."""
    ClusterReplicas(places.kube).write(RUN, journal_of(tmp_path, RUN, STARTED))
    found = places.kube.get(SECRETS, secret_name(RUN), "kube-system")
    assert found is not None
    assert "journal of an upgrader run" in found["metadata"]["annotations"]["kubernetes.io/description"]


def test_two_writers_of_one_secret(places: Places, tmp_path: Path) -> None:
    """Of two machines that work on one run at the same moment, the slower one is refused, whatever it had read."""
    begin = journal_of(tmp_path / "0", RUN, STARTED)
    one, two = ClusterReplicas(places.kube), ClusterReplicas(places.kube)
    one.write(RUN, begin)
    two.write(RUN, begin)
    two.write(RUN, theirs := journal_of(tmp_path / "2", RUN, STARTED, StepApplied("b", 1.0)))
    with pytest.raises(JournalError, match="another machine"):
        one.write(RUN, journal_of(tmp_path / "1", RUN, STARTED, StepApplied("a", 1.0)))
    assert two.read(RUN) == theirs


def test_answers_that_never_came(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write whose answer was lost doesn't keep the next one from being written."""
    begin = journal_of(tmp_path / "0", RUN, STARTED)
    long = journal_of(tmp_path / "1", RUN, STARTED, StepApplied("a", 1.0))
    for name, content in (("create", begin), ("replace", long)):
        real = getattr(places.kube, name)

        def lost(kind: Kind, manifest: KubeObject, namespace: str, real: object = real) -> KubeObject:
            real(kind, manifest, namespace)  # type: ignore[operator]
            raise ApiUnavailable("reset")

        with monkeypatch.context() as patched:
            patched.setattr(places.kube, name, lost)
            with pytest.raises(ApiUnavailable):
                places.cluster.write(RUN, content)
        places.cluster.write(RUN, content)
    assert places.cluster.read(RUN) == long


def test_a_removed_secret_is_made_again(places: Places, tmp_path: Path) -> None:
    """Deleting the Secret in the middle of a run doesn't end the replication."""
    begin = journal_of(tmp_path / "0", RUN, STARTED)
    places.cluster.write(RUN, begin)
    places.kube.delete(SECRETS, secret_name(RUN), SYSTEM)
    places.cluster.write(RUN, begin)
    assert places.cluster.read(RUN) == begin


def test_refusals_are_passed_on(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not write Secrets gets the API's own message."""
    error = ApiError("secrets is forbidden")
    error.status = 403

    def refuse(*_: object) -> KubeObject:
        raise error

    monkeypatch.setattr(places.kube, "create", refuse)
    with pytest.raises(ApiError, match="forbidden"):
        places.cluster.write(RUN, journal_of(tmp_path, RUN, STARTED))


def test_a_damaged_secret_is_named(places: Places) -> None:
    """What can't be unpacked is not a journal, and the error names the object."""
    for data in ({}, {"journal.jsonl.gz": "%%"}, {"journal.jsonl.gz": base64.b64encode(b"\x1f\x8bno").decode()}):
        places.kube.put(SECRETS, {"metadata": {"name": secret_name(RUN), "namespace": SYSTEM}, "data": data}, SYSTEM)
        with pytest.raises(JournalError, match=f"kube-system/{secret_name(RUN)}"):
            places.cluster.read(RUN)


def test_only_root_reads_it_on_a_controller(places: Places, tmp_path: Path) -> None:
    """The file is 0600 and its folders 0700, and no command line, which other users can see, has any of it."""
    content = journal_of(tmp_path, RUN, STARTED)
    places.controllers[0].write(RUN, content)
    assert places.hosts.modes[ONE.name, f"{CONTROLLER_RUNS}/{RUN}/{JOURNAL}"] == 0o600
    assert (ONE.name, ("install", "-d", "-m", "0700", CONTROLLER_RUNS, f"{CONTROLLER_RUNS}/{RUN}")) in places.hosts.ran
    assert all("RunStarted" not in word for _, command in places.hosts.ran for word in command)


def test_the_longest_journal_fits(places: Places, tmp_path: Path) -> None:
    """A journal at the size from which it takes no more details still fits into a Secret."""
    chance = random.Random(1)
    checks = [
        GateChecked("kube-apiserver", "daemonset/x", pending(f"{chance.random()} of {index} pods Ready"), 0, 3, 1.0)
        for index in range(13_000)
    ]
    content = journal_of(tmp_path, RUN, STARTED, *checks)
    assert len(content) >= DETAIL_BYTES
    places.cluster.write(RUN, content)
    assert places.cluster.read(RUN) == content


def test_what_does_not_fit_is_refused(places: Places, tmp_path: Path) -> None:
    """What the API would refuse, with a message about bytes of base64, is refused here with one about the journal."""
    noise = random.Random(1).randbytes(SECRET_BYTES + 1)
    with pytest.raises(JournalError, match="more than fits into a Secret"):
        places.cluster.write(RUN, noise)


@pytest.mark.parametrize(
    "name",
    ["", "20260101T000000-", "20260101T000000-../x", "20260101T000000-a/b", f"{RUN}\n", "lost+found", ".", "x" * 80],
)
def test_names_that_are_no_runs(name: str) -> None:
    """A name becomes a path on this machine and on controllers: nothing that leads outside is accepted as a run."""
    assert not is_run(name)


def test_names_that_are() -> None:
    """Whatever commands call their runs is a run's name, and its Secret has a name that the API accepts."""
    for label in ("v1.37.1", "adopt", "adopt-undo", "recover", "v1.38.0-rc.1"):
        assert is_run(f"20260101T000000-{label}")
    assert secret_name(RUN) == "upgrader.run.20260101t000000-v1.37.1"
