"""The JSON Schemas of `upgrader.yaml` and of a fleet's files, by which editors complete and check them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from upgrader.config.fleet_yaml import FleetInventoryYaml, FleetYaml
from upgrader.config.upgrader_yaml import UpgraderYaml

__all__ = ["FILES", "schema_text"]

FILES: Mapping[str, type[BaseModel]] = {
    "upgrader.yaml": UpgraderYaml,
    "fleet.yaml": FleetYaml,
    "fleet-inventory.yaml": FleetInventoryYaml,
}
"""What each file holds."""


def schema_text(file: str = "upgrader.yaml") -> str:
    """The schema of one of FILES, as JSON. It knows keys and types; what fits together, `upgrader check --offline` and
    `upgrader fleet status` know.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **FILES[file].model_json_schema()}
    return json.dumps(_without_noise(schema), indent=2, ensure_ascii=False) + "\n"


def _without_noise(value: Any) -> Any:
    """Without titles, which repeat the key, and defaults, which aren't written as a file has them (5m is 300.0)."""
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    if not isinstance(value, dict):
        return value
    noise = {"title", "default"} if isinstance(value.get("title", ""), str) else set()
    return {key: _without_noise(item) for key, item in value.items() if key not in noise}


if __name__ == "__main__":
    sys.stdout.write(schema_text(*sys.argv[1:]))
