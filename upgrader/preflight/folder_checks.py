"""The checks of a cluster folder alone, and the checks that need the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upgrader.model.finding import Finding
from upgrader.model.severities import with_policy
from upgrader.preflight.all_checks import CHECKS
from upgrader.preflight.audit_log import check_clients
from upgrader.preflight.folder_charts import check_charts
from upgrader.preflight.folder_context import FolderContext, NotAsked
from upgrader.preflight.folder_files import as_finding
from upgrader.preflight.folder_inventory import check_inventory
from upgrader.preflight.folder_playbooks import check_playbooks
from upgrader.preflight.helm_client import check_client
from upgrader.preflight.removed_apis import check_manifests
from upgrader.preflight.version_skew import check_target

__all__ = ["FolderReport", "check_folder"]

_NEEDS_CLUSTER = "needs the cluster"
_ANSWERED = ("audit-log", "helm", "playbooks", "removed-apis")
"""The families whose question the folder answers, if only in part."""
_IN_PART = (
    NotAsked(
        "charts",
        "`lookup` returns nothing, and `.Capabilities` has Helm's defaults, except for the target's version",
    ),
    NotAsked("kubeconfig", "upgrader doesn't read credentials offline"),
    NotAsked("removed-apis", "the cluster's state: its installed releases, and the requests of its clients"),
)


@dataclass(frozen=True)
class FolderReport:
    """The problems of a folder, and what was not checked."""

    findings: tuple[Finding, ...]
    not_asked: tuple[NotAsked, ...]


def check_folder(context: FolderContext) -> FolderReport:
    """Every check is made, whatever the others find, of all that is valid in the folder."""
    answers = [*_answers(context)]
    severities = context.reading.settings.severities if context.reading.settings else {}
    findings = tuple(with_policy((item for item in answers if isinstance(item, Finding)), severities))
    open_questions = (item for item in answers if isinstance(item, NotAsked))
    families = (NotAsked(family, _NEEDS_CLUSTER) for family in dict(CHECKS) if family not in _ANSWERED)
    return FolderReport(findings, (*open_questions, *_IN_PART, *families))


def _answers(context: FolderContext) -> Iterator[Finding | NotAsked]:
    yield from map(as_finding, context.reading.problems)
    yield from check_inventory(context)
    yield from check_playbooks(context)
    yield from check_client(context.helm)
    settings = context.reading.settings
    if settings is None:
        yield NotAsked("charts", "upgrader.yaml has no valid version to render them for")
        if context.audit_log is not None:
            yield NotAsked("audit-log", "upgrader.yaml has no valid version to compare it with")
        return
    yield from check_target(settings.target)
    if context.audit_log is not None:
        yield from check_clients(context.audit_log, settings.target)
    rendered: dict[str, str] = {}
    yield from check_charts(context, rendered)
    yield from check_manifests(rendered, settings.target)
