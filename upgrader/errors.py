"""Every error that `upgrader` raises on purpose, and the exit code that each one ends with.

    UpgraderError                 1  a bug, unless a subclass has another code
    ├── UsageError                2  the command line or a file is wrong; nothing was changed
    │   ├── ConfigError           2  …with the file and the line
    │   └── BackupRefused         2  a backup is damaged, or isn't this cluster's
    ├── Blocked                 3  a check forbids the run; nothing was changed
    │   └── PlanNotApproved       3  …its changes are not those of its approved plan
    ├── LabError                  2  the local lab can't do what was asked
    ├── StepFailed                4  a step did not reach its goal (the engine rolls back)
    │   ├── GateFailed            4  …applied, but a gate did not pass
    │   ├── ApiLost               4  …the API has been unreachable for longer than a run waits
    │   └── WorkloadFailed        4  …a workload can't become ready, and this is why
    ├── RollbackFailed            5  a rollback or a recovery can't go on: manual action required
    ├── ChangedMeanwhile          5  someone else changed what an interrupted run was about
    ├── HelmError                 5  Helm refused or failed
    │   ├── ReleaseLocked         3  a release is stuck in pending-*
    │   └── ChartRefused          2  a chart doesn't render with its values; nothing was changed
    ├── ApiError                  5  the Kubernetes API answered, but not with what was asked for
    │   ├── CredentialsRefused    2  …it accepts no credentials of the kubeconfig: nothing was changed
    │   └── ApiUnavailable        5  the Kubernetes API did not answer (unknown, never healthy)
    ├── HostError                 5  a host could not be reached, or a command on it failed
    │   ├── HostUnreachable       3  …not reached at all
    │   │   └── HostSilent        3  …as nothing answers there
    │   └── RehearsalFailed       3  …so there is no rehearsal; nothing was changed
    ├── ServiceError              5  a service beside the cluster (Pushgateway, …) did not answer; never ends a run
    ├── PlaybookError             5  a playbook failed, on these hosts and tasks
    │   └── PlaybookRefused       5  Ansible refuses to read it; nothing of it was run
    ├── CampaignStopped           5  a campaign needs a person, or ended with failures (3 or 4, where none is worse)
    ├── JournalError              5  the run's journal can't be written
    ├── MachineFailed             5  a full disk, or another fault of this machine, ended a run where it was
    ├── Locked                    6  another run is upgrading this cluster
    └── Interrupted             130  stopped by the operator; resumable

An error states what happened to which object (`message`), and what to do next (`remedy`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "ApiError",
    "ApiLost",
    "ApiUnavailable",
    "BackupRefused",
    "CampaignStopped",
    "ChangedMeanwhile",
    "ChartRefused",
    "ConfigError",
    "CredentialsRefused",
    "GateFailed",
    "HelmError",
    "HostError",
    "HostSilent",
    "HostUnreachable",
    "Blocked",
    "Interrupted",
    "JournalError",
    "LabError",
    "Locked",
    "MachineFailed",
    "PlanNotApproved",
    "PlaybookError",
    "PlaybookRefused",
    "RehearsalFailed",
    "ReleaseLocked",
    "RollbackFailed",
    "ServiceError",
    "StepFailed",
    "UpgraderError",
    "UsageError",
    "WorkloadFailed",
    "error_name",
]

_NO_RIGHT = re.compile(r"\bcannot \S+ (?:resource|path) ")
"""How an API server tells a right that is missing: `User "x" cannot create resource "jobs" in API group "batch"`."""


class UpgraderError(Exception):
    """A general error: the message says what happened, and the remedy what to do.

    `exit_code` is the process's when the error is not caught.
    """

    exit_code = 1
    exit_codes: tuple[int, ...] = ()
    """Those that one of this kind may have, if they differ."""
    folder: Path | None = None
    """The cluster's folder that the command was given: commands in the remedy are shown with it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(UpgraderError):
    """The command line, a file or the environment is wrong; nothing was changed."""

    exit_code = 2


class ConfigError(UsageError):
    """A file of the cluster folder is wrong; the message starts with `FILE:LINE:`."""


class BackupRefused(UsageError):
    """A backup is damaged, incomplete or another cluster's; nothing was changed."""


class LabError(UsageError):
    """The local lab can't do this on this machine, or in its current state."""


class Blocked(UpgraderError):
    """A preflight check forbids the run; nothing was changed."""

    exit_code = 3


class PlanNotApproved(Blocked):
    """A campaign's run would make other changes than those that were approved; nothing was changed."""


class StepFailed(UpgraderError):
    """A step did not reach its goal; it is rolled back, and so are the steps before it."""

    exit_code = 4


class GateFailed(StepFailed):
    """A step was applied, but one of its gates did not pass."""

    def __init__(self, message: str, *, remedy: str) -> None:
        """Every failed gate has a remedy: the gate that checks knows what an operator should do."""
        super().__init__(message, remedy=remedy)


class ApiLost(StepFailed):
    """The API was unreachable for too long while a run waited for a step or its gates.

    `credentials`: it answered, and didn't accept those of the kubeconfig.
    """

    def __init__(self, message: str, *, remedy: str = "", credentials: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.credentials = credentials


class RollbackStalled(StepFailed):
    """Nothing acts on a rollback of kube-apiserver: what it replaces is too slow, or answers nothing."""


class WorkloadFailed(StepFailed):
    """A workload can't become ready; the message holds the cause (container state, events, log tail)."""


class RollbackFailed(UpgraderError):
    """A rollback or a recovery can't continue; manual action is required."""

    exit_code = 5


class ChangedMeanwhile(UpgraderError):
    """Another client changed an object of an interrupted run; neither the object nor the run was changed."""

    exit_code = 5


class HelmError(UpgraderError):
    """Helm refused or failed; the message quotes it."""

    exit_code = 5


class HelmUnfinished(HelmError):
    """Helm exceeded its own timeout and was stopped: its changes are unknown, and another try may do the rest."""


class ReleaseLocked(HelmError):
    """A Helm release is stuck in `pending-*`, which makes Helm refuse every further operation on it."""

    exit_code = 3


class ChartRefused(HelmError):
    """A chart doesn't render with its values: one of the two is wrong; nothing was changed."""

    exit_code = 2


class ApiError(UpgraderError):
    """The Kubernetes API answered, but rejected the request or failed; `status` is the HTTP status (0: none)."""

    exit_code = 5
    status = 0

    @property
    def lacks_right(self) -> bool:
        """Whether the user's rights don't allow it. Admission, such as a quota, refuses with the same status."""
        return self.status == HTTPStatus.FORBIDDEN and _NO_RIGHT.search(self.message) is not None


class CredentialsRefused(ApiError):
    """The Kubernetes API rejected the kubeconfig's credentials (401); nothing was changed."""

    exit_code = 2
    status = 401


class ApiUnavailable(ApiError):
    """The Kubernetes API did not answer, so the state of the cluster is unknown."""


class HostError(UpgraderError):
    """A command on a host failed, or the connection broke while it ran."""

    exit_code = 5


class HostUnreachable(HostError):
    """No SSH connection to a host could be made."""

    exit_code = 3


class HostSilent(HostUnreachable):
    """Nothing answers SSH at a host's own address: its machine may be off."""


class RehearsalFailed(HostError):
    """A command on a controller failed, so there is no rehearsal; nothing was changed in the cluster."""

    exit_code = 3


class ServiceError(UpgraderError):
    """A request to a service beside the cluster, such as a Pushgateway, failed; the caller continues without it."""

    exit_code = 5


class PlaybookError(UpgraderError):
    """A playbook failed; the message names the hosts and tasks, and `hosts` has the failure of each host.

    `begun`: whether a task may have been begun on any host; False where Ansible ended before that, by itself.
    """

    exit_code = 5

    def __init__(
        self, message: str, *, remedy: str = "", hosts: Mapping[str, str] = MappingProxyType({}), begun: bool = True
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.hosts = hosts
        self.begun = begun


class PlaybookRefused(PlaybookError):
    """Ansible can't read a playbook, or a file that it includes; no task of it was run."""


class CampaignStopped(UpgraderError):
    """A campaign needs an operator, or has ended with failed clusters; the worst of them sets the exit code.

    5: a cluster requires manual action; 4: clusters were rolled back; 3: no cluster was changed by a failure.
    """

    exit_code = 5
    exit_codes = (3, 4, 5)

    def __init__(self, message: str, *, remedy: str, exit_code: int) -> None:
        super().__init__(message, remedy=remedy)
        self.exit_code = exit_code


class JournalError(UpgraderError):
    """The journal can't be written any more, so the run stopped where it was."""

    exit_code = 5


class MachineFailed(UpgraderError):
    """A full disk, or another fault of the machine that upgrader runs on, ended a run; it can be resumed."""

    exit_code = 5


class Locked(UpgraderError):
    """Another run holds this cluster's lock."""

    exit_code = 6


class Interrupted(UpgraderError):
    """The operator stopped the run; it can be resumed."""

    exit_code = 130


def error_name(error: UpgraderError) -> str:
    """What `upgrader explain` knows it as: the name of its class, or of the nearest one in this module."""
    return next(each.__name__ for each in type(error).__mro__ if each.__module__ == __name__)
