"""What all tests share: real clusters for those that need one, and the duration of each kind of test."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from release.charts import pack_charts
from release.checksums import write_checksums
from release.images import write_checkpointer
from release.python_packages import build_packages, download_dependencies
from release.sources import Sources
from testkit.lab_cluster import OLD, TARGET, LabCluster, lent_cluster, make_cluster
from testkit.lab_logs import keep_logs
from testkit.waiting import waiting
from tests import interruptions
from upgrader.errors import UpgraderError
from upgrader.lab.existing_labs import labs

_seconds = pytest.StashKey[dict[str, float]]()

_QUICK = {"readyFor": 5, "releaseAfter": 10}
"""The pod-checkpointer's values in `make test`: each change of kube-apiserver waits for its checkpoint, and each boot
for the end of its standby pods. `make soak` and `make demo` have its own: 20 and 30 s.
"""


class _Clusters:
    """The shared cluster, made when a test first asks for it. One that a test left in another state is restored in
    `make soak`, and replaced in `make test`: only a test that fails does that there, and to save it takes a minute.

    There is one in each process: more of them share the same two cores, and each costs a fifth of one while it waits.

    UPGRADER_LAB names the folder of an adopted lab (`…/.lab/NAME`) to use instead, while you write a test; it is not
    removed. Save it first (`upgrader lab save adopted`), so that it can be restored.
    """

    def __init__(self, home: Path, *, soak: bool) -> None:
        self._home = home
        self._soak = soak
        self._lent = bool(os.environ.get("UPGRADER_LAB"))
        self._made: LabCluster | None = None

    def get(self, version: str = OLD) -> LabCluster:
        """An adopted cluster, healthy at a version, with the files that it came with."""
        with waiting("a cluster"):
            if self._made is None:
                self._made = lent_cluster(Path(os.environ["UPGRADER_LAB"]), self._home) if self._lent else self._new()
            self._made.restore_files()
            if _usable(self._made, version):
                return self._made
            if self._lent or self._soak:
                self._made.restore()
                # Its containers have just been started again: a check names those as restarted, and refuses a run.
                self._made.wait_until_settled(OLD)
            else:
                self._made.down()
                self._made = None  # also if no other can be made
                self._made = self._new()
            if version != OLD:
                ended = self._made.run(version)
                assert ended.exit_code == 0, ended
            return self._made

    def _new(self) -> LabCluster:
        name = f"e2e-{os.getpid()}"
        checkpointer = {} if self._soak else _QUICK
        made = make_cluster(name, self._home / name, checkpointer=checkpointer, saved=self._soak)
        made.wait_until_settled(OLD)
        return made

    def close(self, *, keep: bool) -> None:
        """Remove the cluster, unless it is kept or was lent."""
        if self._made is None or keep:
            return
        if self._lent:
            self._made.restore_files()
        else:
            self._made.down()


def _usable(cluster: LabCluster, version: str) -> bool:
    try:
        if any(is_at != version for is_at in cluster.versions().values()):
            return False  # no time changes that
        cluster.wait_healthy(version, timeout_seconds=20)
    except Exception:  # noqa: BLE001 - whatever it is, restoring the cluster fixes it
        return False
    return True


@pytest.fixture(scope="session")
def _clusters(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Clusters]:
    soak = any(item.get_closest_marker("soak") for item in request.session.items)
    clusters = _Clusters(tmp_path_factory.mktemp("labs"), soak=soak)
    try:
        yield clusters
    finally:
        clusters.close(keep=bool(os.environ.get("KEEP_LAB") and request.session.testsfailed))


@pytest.fixture
def cluster(_clusters: _Clusters) -> LabCluster:
    """An adopted one-controller cluster, healthy at the old version; tests may change it in any way."""
    return _clusters.get()


@pytest.fixture
def upgraded_cluster(_clusters: _Clusters) -> LabCluster:
    """The same, after a run to the target; a cluster that an earlier test upgraded will do."""
    return _clusters.get(TARGET)


def pytest_configure(config: pytest.Config) -> None:
    """Start counting, and have interrupted tests remove their clusters."""
    # A busy machine is no failure of a property.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
    config.stash[_seconds] = {}
    config.pluginmanager.register(interruptions)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests by the folder that they are in, and those that use the shared cluster."""
    for kind in ("e2e", "contract", "soak"):
        if f"tests/{kind}/" in item.nodeid:
            item.add_marker(kind)
    if isinstance(item, pytest.Function) and {"_clusters", "lab_folder"} & set(item.fixturenames):
        item.add_marker("lab")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a folder, the files whose tests upgrade the shared cluster come last: those after them need it restored."""
    folders = list(dict.fromkeys(item.path.parent for item in items))
    upgrading = {
        item.path for item in items if isinstance(item, pytest.Function) and "upgraded_cluster" in item.fixturenames
    }
    items.sort(key=lambda item: (folders.index(item.path.parent), item.path in upgrading))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays until the end: the garbage collector needn't look through it, neither now
    nor in each of ten thousand tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add up how long each kind of test takes, and keep the logs of the labs that a failed one used."""
    report = yield
    if report.failed and "UPGRADER_TEST_RESULTS" in os.environ:  # type: ignore[attr-defined]
        _keep_logs(item, Path(os.environ["UPGRADER_TEST_RESULTS"]) / "labs")
    kind = item.nodeid.split("/")[1] if item.nodeid.startswith("tests/") else "other"
    seconds = item.config.stash[_seconds]
    seconds[kind] = seconds.get(kind, 0.0) + report.duration  # type: ignore[attr-defined]
    return report


def _keep_logs(item: pytest.Item, folder: Path) -> None:
    """Of this process's labs, before the next test changes them."""
    with suppress(UpgraderError):  # the failure itself is what is to be told
        for placement in labs():
            if str(os.getpid()) in placement.spec.name.split("-"):
                keep_logs(placement.spec.name, folder / re.sub(r"[^\w.-]+", "-", item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how long each kind of test took."""
    if config.stash[_seconds]:
        parts = (f"{kind} {seconds:.0f} s" for kind, seconds in config.stash[_seconds].items())
        terminalreporter.write_line("durations: " + ", ".join(parts))


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A release, but for the image of CI runners, which has tests of its own."""
    folder, sources = tmp_path / "dist", Sources.of_this_checkout()
    folder.mkdir()
    write_checkpointer(folder / "images")
    build_packages(sources, folder)
    download_dependencies(sources, folder / "wheels")
    pack_charts(sources, folder / "charts")
    write_checksums(folder, sources)
    return folder
