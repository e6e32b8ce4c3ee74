"""`migrate-storage`: refused where another version may store objects, and the end of every way back."""

from __future__ import annotations

import json

import pytest

from tests.unit.app.test_finalize import Place, place
from tests.unit.engine.killing import TO
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import READS_FOLDER, FrontEnd
from upgrader.app.rollback import run_to_roll_back
from upgrader.app.storage_migration import propose_migration
from upgrader.errors import Blocked, StepFailed, UsageError
from upgrader.model.run_kind import RunKind
from upgrader.steps.migrate_storage import MigrateStorageStep

__all__ = ["place"]


@pytest.fixture(autouse=True)
def _one_resource(place: Place) -> None:
    """What the API says of itself."""
    place.world.kube.raw_answers["/apis"] = '{"groups": []}'
    resource = {"name": "configmaps", "namespaced": True, "verbs": ["list", "patch"]}
    place.world.kube.raw_answers["/api/v1"] = json.dumps({"resources": [resource]})


def migrate(place: Place) -> FinishedRun:
    """To its end."""
    said = list[str]()
    with propose_migration(place.folder, FrontEnd(doing=said.append), take_over=False) as proposed:
        assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
        return proposed.execute()


def test_after_a_finalize_it_ends_every_way_back(place: Place) -> None:
    """A run of its own kind, which verifies the releases first; the upgrade can't be rolled back any more."""
    place.emulation = False
    upgraded = place.upgrade().state.run
    finished = migrate(place)
    assert finished.error is None
    assert finished.state.kind is RunKind.MIGRATE_STORAGE
    assert [step.name for step in finished.state.steps] == ["kube-apiserver", "kubernetes", "storage"]
    with (
        pytest.raises(UsageError, match="migrated the stored objects"),
        run_to_roll_back(place.folder, upgraded, FrontEnd(), take_over=False),
    ):
        pass


def test_a_patch_can_still_be_rolled_back(place: Place) -> None:
    """Within a minor, every patch reads what another one writes."""
    place.emulation = False
    place.upgrade()
    place.values["kubernetes"]["more"] = ["--v=2"]
    again = place.upgrade()
    assert again.error is None
    migrate(place)
    with run_to_roll_back(place.folder, again.state.run, FrontEnd(), take_over=False) as found:
        assert found.run.state.run == again.state.run


def test_an_emulating_control_plane_is_refused(place: Place) -> None:
    """It stores objects as the old minor does; the remedy is to end the emulation."""
    place.upgrade()
    with pytest.raises(Blocked, match=r"emulates 1\.36") as caught:
        migrate(place)
    assert "finalize" in caught.value.remedy


def test_other_values_are_refused(place: Place) -> None:
    """Until a run has brought them, it isn't certain which version stores what."""
    place.emulation = False
    place.upgrade()
    place.values["kubernetes"]["more"] = ["--v=4"]
    with pytest.raises(Blocked, match="release kubernetes differs from") as caught:
        migrate(place)
    assert str(TO) in caught.value.remedy


def test_a_failure_rolls_nothing_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written stays; the command is repeated."""
    place.emulation = False
    place.upgrade()

    def fail(*_: object) -> None:
        raise StepFailed("denied", remedy="Run it again.")

    monkeypatch.setattr(MigrateStorageStep, "apply", fail)
    before = place.flags("kubernetes")
    finished = migrate(place)
    assert finished.error is not None and finished.error.exit_code == 5
    assert place.flags("kubernetes") == before
