"""Journals outside the machine that runs the upgrade."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.engine.journals import OLDER, ONE, RESUMED, RUN, STARTED, Places, journal_of
from upgrader.engine.history import journal_in_secrets
from upgrader.engine.history.journal_in_secrets import JOURNAL_BYTES, SECRETS, ClusterReplicas, secret_name
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.engine.history.journal_replicas import JournalReplica, is_run
from upgrader.engine.journal.journal_file import DETAIL_BYTES, JOURNAL
from upgrader.errors import ApiError, ApiUnavailable, JournalError
from upgrader.model.event import Note, StepApplied
from upgrader.ports import AT_ONCE, Kind, KubeObject

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


def test_the_longest_journal_fits(places: Places) -> None:
    """A journal at the size from which it takes no more details is kept in the cluster, however badly it packs."""
    content = random.Random(1).randbytes(DETAIL_BYTES)
    places.cluster.write(RUN, content)
    assert places.cluster.read(RUN) == content


def test_what_does_not_fit_is_refused(places: Places) -> None:
    """No journal fills etcd: its size is limited, and the message says where all of it is."""
    with pytest.raises(JournalError, match=r"at most .* are stored in the cluster") as caught:
        places.cluster.write(RUN, bytes(JOURNAL_BYTES + 1))
    assert "run's folder" in caught.value.remedy


class CountingKube(FakeKube):
    """Counts what travels."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[int] = []
        """The bytes of each Secret that was written."""
        self.received = 0

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        self.sent.append(len(json.dumps(manifest)))
        return super().create(kind, manifest, namespace, dry_run=dry_run)

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        self.sent.append(len(json.dumps(manifest)))
        return super().replace(kind, manifest, namespace)

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        found = super().list(kind, namespace, labels=labels, fields=fields)
        self.received += len(json.dumps(found))
        return found

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        before = self.received
        found = list(super().each(kind, namespace, labels=labels, at_once=at_once, metadata_only=metadata_only))
        self.received = before + len(json.dumps(found))
        yield from found


CHUNK = 4096


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long journal has kilobytes."""
    monkeypatch.setattr(journal_in_secrets, "CHUNK_BYTES", CHUNK)


def test_names_cost_no_journals() -> None:
    """Which runs the cluster has is read without a byte of their journals."""
    kube = CountingKube()
    ClusterReplicas(kube).write(RUN, random.Random(1).randbytes(100_000))
    assert ClusterReplicas(kube).names() == (RUN,)
    assert kube.received < 1_000


@pytest.mark.usefixtures("small_chunks")
def test_a_record_costs_the_same_however_long_the_journal_is() -> None:
    """What was sent once isn't sent again: a hundred records of a long run cost no more each than the first ones."""
    kube, noise = CountingKube(), random.Random(1).randbytes(100 * 1000)
    replicas = ClusterReplicas(kube)
    for end in range(1000, len(noise) + 1, 1000):
        replicas.write(RUN, noise[:end])
        assert replicas.read(RUN) == noise[:end]
    chunks = (len(noise) - 1) // CHUNK
    assert len(kube.sent) == 100 + chunks, "one write for each record, and one for each full chunk"
    assert max(kube.sent) < 2 * CHUNK + 5 * 1000, "a chunk in base64, its metadata, and the names of the others"
    assert ClusterReplicas(kube).names() == (RUN,), "chunks are no runs of their own"


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7])
def test_each_length_is_read_back(places: Places, size: int) -> None:
    """Also where a chunk ends exactly with the journal; on another machine, too."""
    content = random.Random(1).randbytes(size)
    places.cluster.write(RUN, content)
    assert ClusterReplicas(places.kube).read(RUN) == content


@pytest.mark.usefixtures("small_chunks")
def test_journal_of_one_secret_is_read_and_continued(places: Places) -> None:
    """One that an earlier version has written, whole and in one Secret, whatever its length."""
    noise = random.Random(1).randbytes(5 * CHUNK)
    data = {"journal.jsonl.gz": base64.b64encode(gzip.compress(noise[: 3 * CHUNK])).decode()}
    labels = {"app.kubernetes.io/managed-by": "upgrader", "upgrader.io/run": RUN}
    places.kube.put(SECRETS, {"metadata": {"name": secret_name(RUN), "labels": labels}, "data": data}, SYSTEM)
    assert places.cluster.names() == (RUN,)
    assert places.cluster.read(RUN) == noise[: 3 * CHUNK]
    places.cluster.write(RUN, noise)
    assert ClusterReplicas(places.kube).read(RUN) == noise


@pytest.mark.usefixtures("small_chunks")
def test_long_journal_is_none_for_who_knows_no_chunks(places: Places) -> None:
    """An earlier version of upgrader never takes the end of a journal for all of it."""
    places.cluster.write(RUN, bytes(2 * CHUNK))
    found = places.kube.get(SECRETS, secret_name(RUN), SYSTEM)
    assert found is not None
    assert "journal.jsonl.gz" not in found["data"]


@pytest.mark.usefixtures("small_chunks")
def test_write_that_is_cut_off_leaves_the_journal_before_it(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks count once the run's own Secret names them; the next write uses those that are there already."""
    noise = random.Random(1).randbytes(3 * CHUNK)
    places.cluster.write(RUN, noise[:1000])

    def lost(*_: object) -> KubeObject:
        raise ApiUnavailable("reset")

    with monkeypatch.context() as patched:
        patched.setattr(places.kube, "replace", lost)
        with pytest.raises(ApiUnavailable):
            places.cluster.write(RUN, noise)
    assert ClusterReplicas(places.kube).read(RUN) == noise[:1000]
    other_machine = ClusterReplicas(places.kube)
    other_machine.write(RUN, noise)
    assert places.cluster.read(RUN) == noise


@pytest.mark.usefixtures("small_chunks")
def test_who_goes_on_leaves_the_chunks_of_the_other_alone(places: Places, tmp_path: Path) -> None:
    """Of two long journals that differ, the one that was resumed is read, whole."""
    left = journal_of(tmp_path / "1", RUN, STARTED, *[Note("only here")] * 99)
    resumed = journal_of(tmp_path / "2", RUN, STARTED, RESUMED, *[Note("and on")] * 99)
    assert min(len(left), len(resumed)) > 2 * CHUNK
    places.cluster.write(RUN, left)
    ClusterReplicas(places.kube).write(RUN, resumed)
    assert places.cluster.read(RUN) == resumed


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_damaged_chunk_is_named(places: Places, damage: str) -> None:
    """A journal with a hole, or another part in it, is none; once its Secret is deleted, it is written anew."""
    noise = random.Random(1).randbytes(3 * CHUNK)
    places.cluster.write(RUN, noise)
    first = next(item for item in places.kube.list(SECRETS, SYSTEM) if ".0-" in item["metadata"]["name"])
    name = first["metadata"]["name"]
    if damage == "missing":
        places.kube.delete(SECRETS, name, SYSTEM)
    else:
        other = base64.b64encode(gzip.compress(b"another")).decode()
        places.kube.put(SECRETS, {**first, "data": {"chunk.gz": other}}, SYSTEM)
    with pytest.raises(JournalError, match=name) as caught:
        places.cluster.read(RUN)
    assert f"delete secret {secret_name(RUN)}" in caught.value.remedy


@pytest.mark.usefixtures("small_chunks")
def test_chunks_are_removed_with_their_run(places: Places) -> None:
    """All of them, and those of no other run; what a removal that was cut off has left is removed by the next."""
    noise = random.Random(1).randbytes(3 * CHUNK)
    for run in (RUN, OLDER):
        places.cluster.write(run, noise)
    places.kube.delete(SECRETS, secret_name(OLDER), SYSTEM)  # cut off here
    assert places.cluster.names() == (OLDER, RUN)
    assert places.cluster.read(OLDER) is None
    places.cluster.remove(OLDER)
    assert places.cluster.read(RUN) == noise
    places.cluster.remove(RUN)
    assert not places.kube.list(SECRETS, SYSTEM)


@pytest.mark.usefixtures("small_chunks")
def test_removed_chunks_are_made_again(places: Places) -> None:
    """Deleting all Secrets of a run in the middle of it doesn't end the replication."""
    noise = random.Random(1).randbytes(4 * CHUNK)
    places.cluster.write(RUN, noise[: 3 * CHUNK])
    ClusterReplicas(places.kube).remove(RUN)
    places.cluster.write(RUN, noise)
    assert ClusterReplicas(places.kube).read(RUN) == noise


@pytest.mark.usefixtures("small_chunks")
def test_refusal_of_a_chunk_is_passed_on(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota that allows no more Secrets is said in the API's own words, and no journal names what isn't there."""
    error = ApiError("exceeded quota")
    error.status = 403

    def refuse(*_: object) -> KubeObject:
        raise error

    places.cluster.write(RUN, b"begin\n")
    monkeypatch.setattr(places.kube, "create", refuse)
    with pytest.raises(ApiError, match="exceeded quota"):
        places.cluster.write(RUN, b"begin\n" + bytes(2 * CHUNK))
    assert places.cluster.read(RUN) == b"begin\n"


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
