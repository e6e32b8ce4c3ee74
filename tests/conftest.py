"""What all tests share: real clusters for those that need one, and the duration of each kind of test."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from release.charts import pack_charts
from release.checksums import write_checksums
from release.images import write_checkpointer
from release.python_packages import build_packages, download_dependencies
from release.sources import Sources
from testkit.lab_cluster import OLD, TARGET, LabCluster, make_cluster
from testkit.lab_logs import keep_logs
from testkit.waiting import waiting
from upgrader.errors import UpgraderError
from upgrader.lab.registry import labs

_seconds = pytest.StashKey[dict[str, float]]()


class _Clusters:
    """The shared cluster, replaced when a test left it in another state.

    It is made while tests run that need no cluster: that takes three minutes, mostly of waiting. With a `spare`, a test
    that needs a restored one gets that, while the other is restored for the next: that takes two minutes, mostly of
    waiting too.

    UPGRADER_LAB names the folder of an adopted lab (`…/.lab/NAME`) to use instead, while you write a test; it is not
    removed. Save it first (`upgrader lab save adopted`), so that it can be restored.
    """

    def __init__(self, home: Path, *, spare: bool) -> None:
        self._lent = bool(os.environ.get("UPGRADER_LAB"))
        self._background = ThreadPoolExecutor(1)
        if self._lent:
            self._all = [_Kept(self._background, partial(_lent_cluster, home))]
        else:
            names = [f"e2e-{os.getpid()}", *([f"e2e-{os.getpid()}-spare"] if spare else [])]
            self._all = [_Kept(self._background, partial(make_cluster, name, home / name)) for name in names]

    def get(self, version: str = OLD) -> LabCluster:
        """An adopted cluster, healthy at a version, with the files that it came with."""
        with waiting("a cluster"):
            cluster = self._first()
            if _usable(cluster, version):
                return cluster
            self._all[0].renew()
            self._all.append(self._all.pop(0))
            cluster = self._first()
            if version != OLD:
                ended = cluster.run(version)
                assert ended.exit_code == 0, ended
            return cluster

    def _first(self) -> LabCluster:
        """The first. One that couldn't be made fails one test, and no others where there is a spare."""
        try:
            cluster = self._all[0].ready()
        except Exception:
            if self._all[0].made is None and len(self._all) > 1:
                self._all.pop(0)
            raise
        cluster.restore_files()
        return cluster

    def close(self, *, keep: bool) -> None:
        """Remove the clusters, unless they are kept, were lent, or couldn't be made."""
        self._background.shutdown(cancel_futures=True)  # waits for what it does now
        for kept in self._all:
            cluster = kept.made
            if cluster is None or keep:
                continue
            if self._lent:
                cluster.restore_files()
            else:
                cluster.down()


class _Kept:
    """A cluster that is made, and later restored, in the background."""

    def __init__(self, background: ThreadPoolExecutor, make: Callable[[], LabCluster]) -> None:
        self._background = background
        self._make = make
        self.made: LabCluster | None = None
        """None before it is made, and where that failed."""
        self._ready = background.submit(self._made_or_restored)

    def ready(self) -> LabCluster:
        """The cluster, waited for; raises why there is none. If it couldn't be restored, the next call tries again."""
        try:
            return self._ready.result()
        except Exception:
            if self.made is not None:
                self.renew()
            raise

    def renew(self) -> None:
        """Have it restored in the background."""
        self._ready = self._background.submit(self._made_or_restored)

    def _made_or_restored(self) -> LabCluster:
        if self.made is None:
            self.made = self._make()
            return self.made
        self.made.restore()
        # Its containers have just been started again: a check names those as restarted, and refuses a run.
        self.made.wait_until_settled(OLD)
        return self.made


def _lent_cluster(home: Path) -> LabCluster:
    folder = Path(os.environ["UPGRADER_LAB"]).resolve()
    cluster = LabCluster(folder.name, folder.parents[1], home / "kept")
    cluster.keep_files()
    return cluster


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
    # While you run a few tests, a second cluster would only be in their way.
    spare = request.config.pluginmanager.hasplugin("tests.sharing")
    clusters = _Clusters(tmp_path_factory.mktemp("labs"), spare=spare)
    try:
        yield clusters
    finally:
        clusters.close(keep=bool(os.environ.get("KEEP_LAB") and request.session.testsfailed))


@pytest.fixture(scope="session", autouse=True)
def _begin_early(request: pytest.FixtureRequest) -> None:
    """Begin to make the shared cluster before the first test, if any test needs it."""
    if any(mark.args == () for item in request.session.items for mark in item.iter_markers("lab")):
        request.getfixturevalue("_clusters")


@pytest.fixture
def cluster(_clusters: _Clusters) -> LabCluster:
    """An adopted one-controller cluster, healthy at the old version; tests may change it in any way."""
    return _clusters.get()


@pytest.fixture
def upgraded_cluster(_clusters: _Clusters) -> LabCluster:
    """The same, after a run to the target; a cluster that an earlier test upgraded will do."""
    return _clusters.get(TARGET)


def pytest_configure(config: pytest.Config) -> None:
    """Start counting; SIGTERM ends the tests as Ctrl-C does, so that no cluster is left behind."""
    # A busy machine is no failure of a property.
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
    config.stash[_seconds] = {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark end-to-end and contract tests by the folder that they are in, and those that use the shared cluster."""
    for kind in ("e2e", "contract"):
        if f"tests/{kind}/" in item.nodeid:
            item.add_marker(kind)
    if isinstance(item, pytest.Function) and {"_clusters", "lab_folder"} & set(item.fixturenames):
        item.add_marker("lab")


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
