"""Reads the two files of a fleet, as far as a file alone can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from upgrader.config.fleet_yaml import FleetInventoryYaml, FleetYaml
from upgrader.config.validation_errors import explain
from upgrader.config.yaml_document import Document, all_in_one, read_mapping, shown
from upgrader.errors import UsageError

__all__ = ["FLEET", "INVENTORY", "read_fleet_inventory", "read_fleet_yaml"]

FLEET, INVENTORY = "fleet.yaml", "fleet-inventory.yaml"

Model = TypeVar("Model", bound=BaseModel)


def read_fleet_yaml(folder: Path) -> tuple[Document, FleetYaml]:
    """The campaign. Raises UsageError where the folder has none, and ConfigError with all that is wrong."""
    return _read(folder / FLEET, FleetYaml)


def read_fleet_inventory(folder: Path) -> tuple[Document, FleetInventoryYaml]:
    """The clusters. As `read_fleet_yaml`."""
    return _read(folder / INVENTORY, FleetInventoryYaml)


def _read(path: Path, kind: type[Model]) -> tuple[Document, Model]:
    if not path.is_file():
        raise UsageError(
            f"{shown(path.parent)} is not a fleet folder: it has no {path.name}",
            remedy="Pass the folder with -C DIR; docs/fleet.md shows what is in it.",
        )
    document = read_mapping(path)
    try:
        return document, kind.model_validate(document.data)
    except ValidationError as error:
        raise all_in_one(explain(document, error)) from None
