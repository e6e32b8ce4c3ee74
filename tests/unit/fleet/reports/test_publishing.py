"""What a coordinator publishes of its campaign, and that none of it ends or delays the campaign."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_campaigns import Shown, campaign_of
from testkit.waiting import stretched
from upgrader.config.fleet_files import FLEET, INVENTORY
from upgrader.errors import ServiceError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.events import Paused
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.fleet.reports import files, publishing
from upgrader.fleet.reports.publishing import Publisher


@dataclass
class Sink:
    """Keeps what it is given; fails, if it is to."""

    fails: bool = False
    got: list[bytes] = field(default_factory=list)
    name = "the sink"

    def write(self, kind: str, content: bytes) -> None:
        if self.fails:
            raise ServiceError("refused")
        self.got.append(content)


@dataclass
class Stage:
    """A publisher with its clock, its sink and what it tells people."""

    folder: Path
    sink: Sink = field(default_factory=Sink)
    clock: FakeClock = field(default_factory=FakeClock)
    shown: Shown = field(default_factory=lambda: campaign_of(5))
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        nothing = cast(Any, None)
        campaign = Campaign(self.folder / "runs/20261130T210000-fleet-v1.37.1")
        campaign.folder.mkdir(parents=True)
        coordinator = Coordinator(
            self.folder, self.shown.status.fleet, campaign, nothing, nothing, self.clock, nothing, nothing
        )
        self.page = campaign.folder / files.PAGE
        self.publisher = Publisher(coordinator, (self.sink,), self.said.append)

    def look(self, seconds: float, paused: str = "") -> bool:
        """A look some seconds later; whether the page was written."""
        self.clock.sleep(seconds)
        self.page.unlink(missing_ok=True)
        state = self.shown.status.state
        pause = Paused(paused, "") if paused else None
        self.publisher.look(self.shown.status.decision, replace(state, paused=pause))
        return self.page.is_file()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A publisher of a campaign whose journal has no attempts."""
    monkeypatch.setattr(files, "read_attempts", lambda _: {})
    return Stage(tmp_path)


def test_page_is_written_when_something_changes(stage: Stage) -> None:
    """At once, but not more often than each ten seconds; what has not changed, each five minutes."""
    assert stage.look(0)
    assert not stage.look(2, "bob") and stage.look(10, "bob"), "what was held back is written later"
    assert not stage.look(200, "bob") and stage.look(200, "bob")
    assert stage.page.stat().st_mode & 0o777 == 0o600
    assert (stage.page.parent / files.CALENDAR).read_bytes().startswith(b"BEGIN:VCALENDAR\r\n")


def test_end_says_that_no_coordinator_runs(stage: Stage) -> None:
    """The last page is that of a campaign that no one runs, and has the last look."""
    stage.look(0)
    stage.look(1, "bob")
    stage.publisher.close()
    text = stage.page.read_text()
    assert "Not being run" in text or "Needs an operator" in text
    assert stage.sink.got, "the metrics too"


def test_metrics_show_that_it_is_looked_after(stage: Stage) -> None:
    """They are sent each minute, also if nothing changes."""
    for seconds in (0, 30, 30, 30, 30):
        stage.look(seconds)
    stage.publisher.close()
    assert len(stage.sink.got) == 3 + 1, "at 0, 60 and 120 s, and at the end"


def test_nothing_of_it_ends_a_campaign(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that can't be written, a sink that refuses and a fault of ours are each told of once."""
    stage.sink.fails = True

    def fault(*_: object, **__: object) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(files, "fleet_html", fault)
    for _ in range(3):
        assert not stage.look(400)
    stage.publisher.close()
    page, metrics = sorted(stage.said)
    assert page.endswith("fleet.html can't be made: ZeroDivisionError: division by zero, but the campaign continues")
    assert metrics == "metrics can't be written to the sink, but the campaign continues: refused"


def test_folder_that_hangs_delays_no_campaign(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has links to reports in clusters' folders: one that doesn't answer is waited for once, and told of."""
    mount, reads = Event(), list[bool]()
    monkeypatch.setattr(files, "write_files", lambda *_: reads.append(mount.wait(stretched(60))))
    stage.publisher._pages = Inquiry(seconds=0.0)
    for _ in range(3):
        assert not stage.look(400)
    stage.publisher.close()
    assert stage.said == ["a cluster's folder has not answered within 0 s: no page, but the campaign continues"]
    assert reads == []
    mount.set()


def test_folder_that_cannot_be_written(stage: Stage) -> None:
    """It is named, with what is wrong with it."""
    stage.page.mkdir()
    stage.publisher.look(stage.shown.status.decision, stage.shown.status.state)
    assert "fleet.html can't be written: " in stage.said[0]
    stage.publisher.close()
    assert len(stage.said) == 1


def test_publishing_closes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context has the sinks that fleet.yaml names, and closes the publisher however it is left."""
    sink = Sink()
    monkeypatch.setattr(files, "read_attempts", lambda _: {})
    monkeypatch.setattr(publishing, "metric_sinks", lambda _: (sink,))
    stage = Stage(tmp_path)

    def interrupted() -> None:
        with publishing.publishing(stage.publisher._coordinator, stage.said.append) as publisher:
            publisher.look(stage.shown.status.decision, stage.shown.status.state)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(sink.got) == 2 and stage.page.is_file() and stage.said == []


def test_page_advises_nothing_that_a_changed_file_forbids(stage: Stage) -> None:
    """`retry` is refused while a file of the fleet isn't what the campaign was begun with."""
    for folder in (stage.folder, stage.page.parent):
        for name in (FLEET, INVENTORY):
            (folder / name).write_text("a: 1\n")
    assert stage.look(0) and "To do: fix this" in stage.page.read_text()
    (stage.folder / FLEET).write_text("a: 2\n")
    assert stage.look(10, "bob") and "To do:" not in stage.page.read_text()
