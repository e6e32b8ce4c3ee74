"""Puts what is no Python into the wheel: charts, playbooks, templates, and what the lab is made of.

Not into an editable installation, which reads them from the checkout.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDERS = {
    "charts": "upgrader/built_in_charts",
    "playbooks": "upgrader/built_in_playbooks",
    "lab": "upgrader/built_in_lab",
    "templates": "upgrader/built_in_templates",
}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Found by hatchling through its base class."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders."""
        if version == "standard":
            build_data["force_include"].update(_FOLDERS)
