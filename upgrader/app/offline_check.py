"""`upgrader check --offline`: what is wrong with a folder, without credentials and without running anything of it.

For merge requests, whose authors are not trusted. Unlike `plan --offline`, it doesn't stop at the first problem, opens
nothing outside the folder, and doesn't start Ansible at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.wiring import open_renderer, wanted_releases
from upgrader.config.load import Overrides, read_folder
from upgrader.config.untrusted_folder import UntrustedFolder
from upgrader.model.finding import Finding
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import blocking
from upgrader.preflight.audit_log_files import given_audit_log
from upgrader.preflight.folder_checks import check_folder
from upgrader.preflight.folder_context import FolderContext, NotAsked
from upgrader.preflight.refusal import refusal

__all__ = ["CheckedFolder", "check_offline"]


@dataclass(frozen=True)
class CheckedFolder:
    """A folder, every finding on it, and the questions that only the cluster answers."""

    target: KubernetesVersion | None
    """None where the folder has no valid one."""
    findings: tuple[Finding, ...]
    not_asked: tuple[NotAsked, ...]

    @property
    def blocked(self) -> bool:
        """Whether the folder is wrong, or something in it could not be judged."""
        return blocking(self.findings)

    def refuse_if_blocked(self, *, seen: bool = False) -> None:
        """Raise Blocked where the folder is not known to be right. `seen`: the findings are still on the screen."""
        if self.blocked:
            what = "the folder has errors, or can't be checked; no cluster was contacted"
            raise refusal(what, self.findings, seen=seen)


def check_offline(
    folder: Path, target: KubernetesVersion | None, skips: Skips = NO_SKIPS, audit_logs: Sequence[Path] = ()
) -> CheckedFolder:
    """Check a folder, and the clients in audit logs. Its environment variables are not read: they name credentials.

    `target` None: the file's.
    """
    log = given_audit_log(audit_logs)
    guard = UntrustedFolder(folder.absolute())
    reading = read_folder(folder, {}, Overrides(target=target), guard)
    releases = wanted_releases(reading.settings) if reading.settings else ()
    with open_renderer() as helm:
        report = check_folder(FolderContext(reading, guard, releases, helm, log))
    wanted = reading.settings.target if reading.settings else target
    return CheckedFolder(wanted, skips.apply(report.findings), report.not_asked)
