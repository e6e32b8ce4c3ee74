"""Reads the two files of a fleet, as far as a file alone can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from upgrader.config.fleet_yaml import FleetInventoryYaml, FleetYaml
from upgrader.config.validation_errors import explain
from upgrader.config.yaml_document import Document, all_in_one, read_mapping, shown
from upgrader.errors import UsageError

__all__ = ["FLEET", "INVENTORY", "read_fleet_inventory", "read_fleet_yaml", "refuse_other_folder"]

FLEET, INVENTORY = "fleet.yaml", "fleet-inventory.yaml"

_UID = (
    "To show a UID: kubectl --kubeconfig clusters/NAME/kubeconfig get namespace kube-system -o jsonpath={.metadata.uid}"
)

Model = TypeVar("Model", bound=BaseModel)


def read_fleet_yaml(folder: Path) -> tuple[Document, FleetYaml]:
    """The campaign. Raises UsageError where the folder has none, and ConfigError with all that is wrong."""
    return _read(folder / FLEET, FleetYaml)


def read_fleet_inventory(folder: Path) -> tuple[Document, FleetInventoryYaml]:
    """The clusters. As `read_fleet_yaml`."""
    return _read(folder / INVENTORY, FleetInventoryYaml)


def refuse_other_folder(folder: Path) -> None:
    """Raise UsageError for a folder that lacks one of the two files."""
    for name in (INVENTORY, FLEET):
        _refuse_missing(folder / name)


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise UsageError(
            f"{shown(path.parent)} is not a fleet folder: it has no {path.name}",
            remedy="Pass the folder with -C DIR; `upgrader fleet init` writes its files, and docs/fleet.md shows them.",
        )


def _read(path: Path, kind: type[Model]) -> tuple[Document, Model]:
    _refuse_missing(path)
    document = read_mapping(path)
    try:
        return document, kind.model_validate(document.data)
    except ValidationError as error:
        wrong = all_in_one(explain(document, error))
        if any(each["type"] == "missing" and each["loc"][-1:] == ("uid",) for each in error.errors()):
            wrong.remedy = _UID
        raise wrong from None
