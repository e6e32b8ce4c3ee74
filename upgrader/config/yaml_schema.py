"""The JSON Schema of `upgrader.yaml`, by which editors complete and check it."""

from __future__ import annotations

import json
import sys
from typing import Any

from upgrader.config.upgrader_yaml import UpgraderYaml

__all__ = ["schema_text"]


def schema_text() -> str:
    """As JSON. It knows keys and types; what fits together, `upgrader check --offline` knows."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **UpgraderYaml.model_json_schema()}
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
    sys.stdout.write(schema_text())
