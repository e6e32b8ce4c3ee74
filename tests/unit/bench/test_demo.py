"""The demo's first minute: what it says that it will do, and what is shown while it builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.demo.parts import described, parts, remember
from bench.demo.what_comes import main
from bench.demo.while_building import RECORDING, built
from upgrader.app.recorded_run import recorded_run
from upgrader.model.event import AvailabilityMeasured, RunEnded, RunStarted

FROM, TO = "v1.36.3", "v1.37.1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # without Helm
    return tmp_path / "upgrader"


def test_estimates_are_called_so(cache: Path, tmp_path: Path) -> None:
    """On a new machine everything is about as long as elsewhere, the builds first."""
    lines = list(described(parts(FROM, TO, tmp_path, from_source=True)))
    assert [line for line in lines if "about" not in line] == []
    assert "about 9 min           Kubernetes v1.36.3" in lines[2] and "Kubernetes v1.37.1" in lines[3]
    assert lines[-1] == "  about 32 min in all, on two cores: an estimate"


def test_what_is_built_and_what_was_measured(cache: Path, tmp_path: Path) -> None:
    """Results in the cache take no time, and what this machine did before takes as long as then."""
    for name in ("bin/helm-v4", f"kubernetes/{FROM}-abc", f"kubernetes/{TO}-abc", "etcd/v3", "coredns/v1", "node/x"):
        (cache / name).mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/.installed").touch()
    for name, seconds in {"lab": 40.0, "adopt": 130.0, "workload": 20.0, "upgrade": 110.0}.items():
        remember(name, seconds)
    *lines, total = described(parts(FROM, TO, tmp_path, from_source=True))
    assert sum("is there already" in line for line in lines) == 7
    assert next(line for line in lines if "the last time" in line).startswith("  40 s the last time")
    assert total == "  5 min in all"


def test_release_takes_minutes(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the hosts of the release can be reached, nothing of Kubernetes is built, and the first lines say so."""
    main(FROM, TO, lambda: lambda: "")
    _, way, *lines, total = capsys.readouterr().out.splitlines()
    assert way == f"Kubernetes {FROM}, {TO}: downloaded from dl.k8s.io and registry.k8s.io."
    assert f"  about 60 s            Kubernetes {FROM}, etcd and CoreDNS" in lines
    assert [line for line in lines if "Go module" in line] == ["  about 3 min           Helm, from its Go module"]
    assert total.startswith("  about 1")


def test_why_it_is_built(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is in the first lines; a version that is in the cache needs none, and no host is asked for it."""
    (cache / f"mirror/programs/{FROM}-amd64-1").mkdir(parents=True)
    main(FROM, TO, lambda: lambda: "dl.k8s.io can't be reached: Connection refused")
    why = f"Kubernetes {TO}: built from source, because dl.k8s.io can't be reached: Connection refused."
    assert capsys.readouterr().out.splitlines()[1] == why
    main(FROM, FROM, lambda: pytest.fail("a host is asked"))
    assert "source" not in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", '{"lab": "x"}', "null"])
def test_times_that_can_not_be_read(cache: Path, tmp_path: Path, content: str) -> None:
    """They are as good as none."""
    cache.mkdir()
    (cache / "demo-times.json").write_text(content)
    assert "estimate" in list(described(parts(FROM, TO, tmp_path, from_source=False)))[-1]


class Running:
    """A process that ends after so many looks at it, or when it is told to."""

    def __init__(self, looks: float, code: int = 0) -> None:
        self.looks, self.code, self.ended = looks, code, False

    def poll(self) -> int | None:
        self.looks -= 1
        return self.code if self.ended or self.looks < 0 else None

    def terminate(self) -> None:
        self.ended = True

    def wait(self, timeout: float | None = None) -> int:
        return self.code


def wait(
    build: Running, log: Path, replay: Callable[[], Running | None], interrupt_at: float = -1
) -> tuple[int, list[str]]:
    """The exit code, and what was said; Ctrl-C comes after so many sleeps."""
    said: list[str] = []
    slept = 0

    def sleep(_: float) -> None:
        nonlocal slept
        slept += 1
        if slept == interrupt_at:
            raise KeyboardInterrupt

    return built(build, log, replay, sleep, said.append), said


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The build's."""
    file = tmp_path / "log"
    file.write_text("Kubernetes v1.36.3…\nKubernetes v1.36.3: 40 %\n\n")
    return file


def test_nothing_is_shown_where_all_is_there(log: Path) -> None:
    """A build that ends at once is not worth a recording; its exit code counts."""
    assert wait(Running(5, 3), log, lambda: pytest.fail("it is shown")) == (3, [])


def test_recording_and_then_the_log(log: Path) -> None:
    """While the recording runs, nothing is written over it; after it, how far the build is."""
    assert wait(Running(200), log, lambda: Running(1000)) == (0, [])
    assert wait(Running(200), log, lambda: Running(10)) == (0, ["building: Kubernetes v1.36.3: 40 %"])
    assert wait(Running(200), log, lambda: None) == (0, ["building: Kubernetes v1.36.3: 40 %"])


def test_reasons_are_shown(log: Path) -> None:
    """A build that can't go on downloading says so, once, after the recording that was shown meanwhile."""
    reason = f"Kubernetes {FROM}: building it from source, because its release can't be downloaded: it is gone"
    log.write_text(f"{reason}\nKubernetes {FROM}: downloading its modules…\n")
    assert wait(Running(50), log, lambda: Running(10))[1] == [
        reason,
        f"building: Kubernetes {FROM}: downloading its modules…",
    ]


def test_recording_is_a_run_that_can_be_replayed(tmp_path: Path) -> None:
    """A whole upgrade without a failed request, small, and of no place that anybody could recognize."""
    run = recorded_run(tmp_path, str(RECORDING))
    (ended,) = (event for _, event in run.events if isinstance(event, RunEnded))
    assert isinstance(run.events[0][1], RunStarted) and ended.outcome == "succeeded"
    measured = [event for _, event in run.events if isinstance(event, AvailabilityMeasured)]
    assert measured and measured[-1].failed == 0
    content = RECORDING.read_text()
    assert len(content) < 200_000
    assert [word for word in ("/home/", "/root", "/tmp", "@", "BEGIN ") if word in content] == []


def test_recording_ends_with_the_build(log: Path) -> None:
    """The real thing is next."""
    recording = Running(1000)
    wait(Running(50), log, lambda: recording)
    assert recording.ended


def test_ctrl_c_ends_the_recording_alone(log: Path) -> None:
    """The next one, or one without a recording, ends the build and the demo."""
    recording, build = Running(1000), Running(100)
    assert wait(build, log, lambda: recording, interrupt_at=20)[0] == 0
    assert recording.ended and not build.ended
    build = Running(100)
    with pytest.raises(KeyboardInterrupt):
        wait(build, log, lambda: None, interrupt_at=20)
    assert build.ended
