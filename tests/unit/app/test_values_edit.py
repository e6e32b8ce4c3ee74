"""The number of controllers in values files that a person wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.app.values_edit import edited_counts, write_edited
from upgrader.errors import UsageError
from upgrader.model.settings import ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion

API = "# ours\nreplicas: 1 # one so far\nendpoints:\n  addresses:\n    - 10.0.0.1\n# ports\nport: 6443\n"
KUBERNETES = "controllerManager:\n  # leads\n  replicas: 1\nscheduler: {replicas: 1}\n"


def settings(folder: Path, **other: Any) -> Settings:
    """A cluster folder with these two files."""
    (folder / "values").mkdir()
    releases = []
    for name, text in (("kube-apiserver", API), ("kubernetes", KUBERNETES)):
        file = folder / "values" / f"{name}.yaml"
        file.write_text(text)
        values = yaml.safe_load(text)
        releases.append(ReleaseSettings(name, "kube-system", values=values, values_file=file, **other))
    return Settings(folder, KubernetesVersion(1, 36, 3), folder / "k", folder / "hosts.yml", tuple(releases))


def test_only_the_number_of_controllers_changes(tmp_path: Path) -> None:
    """Comments and all else stay, and so does who may read the file."""
    edited = edited_counts(settings(tmp_path), ("10.0.0.1", "10.0.0.2"))
    api, kubernetes = (tmp_path / "values" / f"{name}.yaml" for name in ("kube-apiserver", "kubernetes"))
    assert edited == {
        api: "# ours\nreplicas: 2 # one so far\nendpoints:\n  addresses: []\n# ports\nport: 6443\n",
        kubernetes: "controllerManager:\n  # leads\n  replicas: 2\nscheduler: {replicas: 2}\n",
    }
    assert api.read_text() == API
    api.chmod(0o640)
    for file, text in edited.items():
        write_edited(file, text)
    assert api.read_text() == edited[api] and api.stat().st_mode & 0o777 == 0o640


def test_number_that_is_right_already_is_no_change(tmp_path: Path) -> None:
    """A command that is repeated writes nothing."""
    assert edited_counts(settings(tmp_path), ("10.0.0.1",)) == {}


def test_pipeline_without_the_built_in_charts_is_refused(tmp_path: Path) -> None:
    """Nobody knows how a chart of the user's counts controllers."""
    with pytest.raises(UsageError, match="no release kube-apiserver with the built-in chart"):
        edited_counts(settings(tmp_path, chart=Path("/mine")), ("10.0.0.1",))
