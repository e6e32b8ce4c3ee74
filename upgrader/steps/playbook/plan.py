"""A playbook of the pipeline, as it is planned. Pure, but that its files are read to tell when they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from upgrader.engine.execution.input_files import file_digests
from upgrader.model.observed import Observed
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import HostChanges, ObjectChange, StepDocument, Undo

__all__ = ["PlannedPlaybook", "looked_into", "playbook_inputs"]

_BESIDE = frozenset(
    {
        "roles",
        "collections",
        "group_vars",
        "host_vars",
        "vars",
        "files",
        "templates",
        "tasks",
        "handlers",
        "library",
        "module_utils",
        "doc_fragments",
    }
)
"""The folders beside a playbook, besides `…_plugins`, from which Ansible takes what it runs without being told to."""

_ROLE = ("tasks", "handlers", "defaults", "vars", "meta", "library")
"""A folder with one of these beside a playbook is a role, too."""


@dataclass(frozen=True)
class PlannedPlaybook(PlannedStep):
    """One playbook; what it changes is known only when Ansible runs it."""

    playbook: Path
    undo: Path | None = None
    """The playbook that undoes it."""
    action: Literal["playbook"] = "playbook"
    changes: tuple[()] = ()

    kind: ClassVar = "playbook"

    @property
    def name(self) -> str:
        return self.playbook.stem

    @property
    def summary(self) -> str:
        return str(self.playbook)

    @property
    def way_back(self) -> Undo:
        if self.undo is None:
            return Undo("none")
        return Undo(self.kind, playbook=self.undo.name, text=f"playbook {self.undo.name}")

    @property
    def described(self) -> str:
        return f"playbook {self.name}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return ()

    def inputs(self) -> Mapping[str, str]:
        return playbook_inputs(self.playbook)

    def document(self, usual_seconds: float | None, hosts: HostChanges | None = None) -> StepDocument:
        """Without its folder."""
        return replace(super().document(usual_seconds, hosts), summary=self.playbook.name)

    @property
    def source(self) -> Path:
        """What is run."""
        return self.playbook

    def changes_from(self, manifest: str) -> tuple[ObjectChange, ...]:
        """What it changes is known only when Ansible runs it."""
        return ()

    def planned(self, observed: Observed) -> PlannedPlaybook:
        """As it is intended: nothing is known of it beforehand."""
        return self


def playbook_inputs(playbook: Path) -> Mapping[str, str]:
    """Of the playbook, and what is beside it: Ansible looks there where the file itself is, not a link to it."""
    found = file_digests(playbook, "playbook", relative_links=True)
    for folder in _beside(playbook.resolve().parent):
        found |= file_digests(folder, folder.name, relative_links=True)
    return found


def looked_into(name: str) -> bool:
    """Whether Ansible takes files from a folder of this name beside a playbook without being told to."""
    return name in _BESIDE or name.endswith("_plugins")


def _beside(parent: Path) -> Iterator[Path]:
    for folder in sorted(path for path in parent.glob("*") if path.is_dir()):
        if looked_into(folder.name) or any((folder / part).is_dir() for part in _ROLE):
            yield folder
