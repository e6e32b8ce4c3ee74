"""A plan for programs, and the JSON Schema of it; `make docs` writes that to `docs/reference/plan.schema.json`."""

from __future__ import annotations

import json
import sys

from upgrader.app.offline_plan import OfflinePlan
from upgrader.model.json_schema import schema_of
from upgrader.model.json_values import to_json
from upgrader.steps.plan_document import PlanDocument

__all__ = ["plan_json", "render"]


def plan_json(plan: PlanDocument | OfflinePlan) -> str:
    """The JSON of a plan; texts that look like secrets are masked."""
    return json.dumps(to_json(plan), indent=2)


def render() -> str:
    """The schema (JSON Schema 2020-12) as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan, as `upgrader plan -o json` prints it",
        "description": "Generated from upgrader/model/plan_document.py and upgrader/app/offline_plan.py. The second "
        "number of format_version increases when fields are added, and the first number when older "
        "readers would misunderstand the new ones.",
        "oneOf": [schema_of(PlanDocument), schema_of(OfflinePlan)],
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
