"""Changes of the number of controllers in values, in a cluster folder's files or only for a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from upgrader.adopt.counted_values import counted
from upgrader.config.yaml_editing import with_changes
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UsageError
from upgrader.model.release import merged
from upgrader.model.settings import ReleaseSettings, Settings, StepSettings

__all__ = ["edited_counts", "with_counts", "write_edited"]


def edited_counts(settings: Settings, addresses: tuple[str, ...]) -> dict[Path, str]:
    """The values files that change where the controllers have these addresses, with their new text.

    Raises UsageError for a pipeline without the built-in charts, ConfigError for a file that can't be edited.
    """
    releases = _counting(settings)
    changes = counted({name: item.values for name, item in releases.items()}, addresses)
    files = {name: file for name in changes if (file := releases[name].values_file)}
    return {file: with_changes(file, changes[name]) for name, file in files.items()}


def with_counts(settings: Settings, addresses: tuple[str, ...]) -> Settings:
    """The settings with the values for controllers with these addresses, whatever the files say.

    Raises UsageError for a pipeline without the built-in charts.
    """
    changes = counted({name: item.values for name, item in _counting(settings).items()}, addresses)

    def changed(item: StepSettings) -> StepSettings:
        if not isinstance(item, ReleaseSettings) or item.name not in changes:
            return item
        return replace(item, values=merged(item.values, changes[item.name]))

    return replace(settings, pipeline=tuple(map(changed, settings.pipeline)))


def _counting(settings: Settings) -> dict[str, ReleaseSettings]:
    """The releases whose values have the number of controllers."""
    releases = {item.name: item for item in settings.pipeline if isinstance(item, ReleaseSettings)}
    for name in ("kube-apiserver", "kubernetes"):
        found = releases.get(name)
        if found is None or found.chart is not None or found.values_file is None:
            raise UsageError(
                f"{settings.folder / 'upgrader.yaml'} has no release {name} with the built-in chart and a values file",
                remedy="Restore it in `pipeline`: the number of controllers is set in its values.",
            )
    return {name: releases[name] for name in ("kube-apiserver", "kubernetes")}


def write_edited(file: Path, text: str) -> None:
    """Write it completely or not at all, with the permissions that it had; a new file is readable by its owner only."""
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, text.encode())
    file.chmod(mode)
