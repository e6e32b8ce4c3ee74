"""A run of a fleet's campaign: it reads a copy of what was approved and begins in time, or is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upgrader.cli.global_options import in_environment
from upgrader.config.copied_folder import COPIES
from upgrader.errors import Blocked, Interrupted, PlanNotApproved

if TYPE_CHECKING:
    from upgrader.app.upgrade import CheckedPlan, ProposedUpgrade
    from upgrader.app.wiring import Session

__all__ = [
    "ApprovedChanges",
    "campaign_options",
    "read_copies",
    "refuse_late",
    "refuse_unapproved",
    "with_approved_inputs",
]

_OPTIONS = (
    click.option(
        "--approved-inputs",
        "approved",
        metavar="DIGEST",
        hidden=True,
        help="Refuse if the cluster folder differs from the one that a fleet's campaign approved.",
    ),
    click.option(
        "--approved-copies",
        "copies",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        hidden=True,
        help="Copy the approved files of the cluster folder into a new folder DIR, and read them there.",
    ),
    click.option(
        "--begin-by",
        "begin_by",
        metavar="TIME",
        type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]),
        hidden=True,
        help="Start no run after this time; with --resume, an interrupted one is resumed at any time.",
    ),
    click.option(
        "--campaign",
        metavar="NAME",
        default="",
        hidden=True,
        help="The campaign that starts the run; the run's journal records it.",
    ),
    click.option(
        "--approved-changes",
        "changes",
        metavar="DIGEST",
        hidden=True,
        help="Refuse a plan whose changes differ from those that a fleet's campaign approved.",
    ),
    click.option(
        "--after",
        metavar="RUN",
        hidden=True,
        help="With --resume, refuse if a run newer than RUN has ended (`none`: if any run has ended).",
    ),
)


def campaign_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a fleet's campaign says what it has approved, and by when its run is to begin."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_copies(folder: Path, copies: Path | None, approved: str | None) -> None:
    """Copy what was approved (its digest) of a cluster folder to `copies`, and have this command read it there; None:
    it reads the folder.

    Raises Blocked for another digest, and UsageError for what can't be copied.
    """
    if approved is None or copies is None:
        return
    from upgrader.fleet.inputs import copy_approved

    made = copy_approved(folder, copies.absolute(), approved)
    if made is None:
        raise _changed()
    click.get_current_context().find_root().with_resource(in_environment({COPIES: str(made)}))


@dataclass
class ApprovedChanges:
    """What a fleet's campaign has approved that a run changes, by its saved plan. The first plan of a command is
    compared, which may be of the run that leaves a controller out first. The ones after it, such as those of later
    minors, are of a cluster that has changed as approved.
    """

    digest: str
    """The plan's `changes_digest`."""
    campaign: str
    _compared: bool = False

    def refuse_others(self, checked: CheckedPlan, session: Session) -> None:
        """Raises PlanNotApproved where the first plan has something to do, and changes something else than what was
        approved, unless a run of the campaign has begun before: a pod that was evicted may have begun it.
        """
        if self._compared or not checked.document.to_do:
            return
        if checked.plan.changes_digest != self.digest and not self._has_begun(session):
            raise PlanNotApproved(
                "the cluster has changed since its plan was saved and approved: a run would now make other changes; "
                "nothing was changed",
                # Without `upgrader`, to which the terminal would add this cluster's folder.
                remedy="`fleet status`, in the fleet folder, shows how to review and approve its new plan.",
            )
        self._compared = True

    def _has_begun(self, session: Session) -> bool:
        return bool(self.campaign) and any(
            run.state.campaign == self.campaign for run in session.find_brief_runs().runs
        )


@contextmanager
def with_approved_inputs(
    folder: Path,
    approved: str | None,
    proposed: AbstractContextManager[ProposedUpgrade],
    campaign: str = "",
    changes: ApprovedChanges | None = None,
) -> Iterator[ProposedUpgrade]:
    """A proposed upgrade, all of whose files have been read, for a `campaign` ("": none). Raises Blocked, as
    `refuse_unapproved` and `ApprovedChanges.refuse_others`.
    """
    with proposed as found:
        refuse_unapproved(folder, approved)
        if changes is not None:
            changes.refuse_others(found.checked, found.session)
        yield replace(found, campaign=campaign) if campaign else found


def refuse_unapproved(folder: Path, approved: str | None) -> None:
    """Raises Blocked where a folder, or its copy that is read, isn't as a fleet's campaign has approved it (its digest;
    None: any may be run).
    """
    if approved is None:
        return
    from upgrader.fleet.inputs import folder_digest

    copies = os.environ.get(COPIES)
    if folder_digest(folder.absolute(), Path(copies) if copies else None) != approved:
        raise _changed()


def refuse_late(begin_by: datetime) -> None:
    """Raises Interrupted after that time: its cluster's window has no more room for a run, so it waits for the next."""
    from upgrader.app.wiring import system_clock

    if system_clock().now() > begin_by:
        raise Interrupted(
            f"the run started too late: after {begin_by:%Y-%m-%d %H:%M}Z, its window leaves no time for a rollback; "
            "nothing was changed"
        )


def _changed() -> Blocked:
    return Blocked(
        "the cluster folder has changed since the campaign compared it with what was approved; nothing was changed",
        remedy="Restore the folder, or review its changes and approve them with `fleet approve --changes`, in the "
        "fleet folder. Then use `fleet retry`, and `fleet run`.",
    )
