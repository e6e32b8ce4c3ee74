"""Validates the parts of an `upgrader.yaml` that don't depend on its invalid parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from upgrader.config.upgrader_yaml import PlaybookSection, ReleaseSection, UpgraderYaml
from upgrader.config.validation_errors import explain
from upgrader.config.yaml_document import Document, KeyPath
from upgrader.errors import ConfigError
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.model.version import KubernetesVersion

__all__ = ["ValidParts", "validate"]

_VERSION, _PIPELINE, _CLUSTER = "kubernetesVersion", "pipeline", "cluster"


@dataclass(frozen=True)
class ValidParts:
    """The valid parts of the file, with the defaults of those that aren't; its `pipeline` is in `steps`."""

    file: UpgraderYaml | None
    """None if a part is invalid on which all others depend."""
    problems: tuple[ConfigError, ...]
    steps: Mapping[KeyPath, ReleaseSection | PlaybookSection]
    """By their positions in the file; those of the default pipeline have none."""
    cluster_valid: bool = True


def validate(document: Document, target: KubernetesVersion | None = None) -> ValidParts:
    """The parts of a document; `target` is used if the file has no valid version."""
    try:
        file = UpgraderYaml.model_validate(document.data)
    except ValidationError as error:
        return _without(document, error, target)
    return ValidParts(file, (), _steps(file, range(len(file.pipeline or ()))))


def _without(document: Document, error: ValidationError, target: KubernetesVersion | None) -> ValidParts:
    problems = explain(document, error)
    places = [details["loc"] for details in error.errors(include_url=False)]
    wrong = {place[0] for place in places if place}
    # A key that nobody knows may be a misspelt `pipeline`, or `cluster`: the defaults of those are not what was meant.
    if () in places or (_VERSION in wrong and target is None):
        return ValidParts(None, problems, {}, cluster_valid=False)
    data: dict[str, Any] = {key: value for key, value in document.data.items() if key not in wrong}
    if _VERSION in wrong:
        data[_VERSION] = str(target)
    kept: list[int] = []
    steps = document.data.get(_PIPELINE)
    if isinstance(steps, list):
        bad = {place[1] for place in places if place[0] == _PIPELINE and len(place) > 1}
        kept = [index for index in range(len(steps)) if index not in bad]
        data[_PIPELINE] = [steps[index] for index in kept] or None
    file = UpgraderYaml.model_validate(data)
    unmeant = _PIPELINE in wrong and not kept
    return ValidParts(file, problems, {} if unmeant else _steps(file, kept), _CLUSTER not in wrong)


def _steps(file: UpgraderYaml, indexes: range | list[int]) -> dict[KeyPath, ReleaseSection | PlaybookSection]:
    if file.pipeline is None:
        return {(_PIPELINE, name): ReleaseSection(release=name) for name in BUILT_IN_CHARTS}
    return {(_PIPELINE, index): item for index, item in zip(indexes, file.pipeline, strict=True)}
