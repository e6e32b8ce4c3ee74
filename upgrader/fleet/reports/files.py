"""Writes the page and the calendar of a campaign into its folder."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from upgrader.app.wiring import system_clock
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ConfigError, UsageError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.reports.attempts import read_attempts
from upgrader.fleet.reports.calendar import calendar
from upgrader.fleet.reports.page import fleet_html
from upgrader.fleet.use_cases import FleetStatus, fleet_status
from upgrader.rendering import BUILT_IN, Templates

__all__ = ["CALENDAR", "PAGE", "fleet_calendar", "fleet_report", "refresh", "write_files"]

PAGE, CALENDAR = "fleet.html", "fleet.ics"


def fleet_report(folder: Path) -> Path:
    """Write both files of a fleet's newest campaign again; returns the page's path. Raises UsageError."""
    status, campaign = _begun(folder)
    write_files(status, campaign, system_clock().now())
    return campaign.folder / PAGE


def fleet_calendar(folder: Path) -> str:
    """The calendar of a fleet's newest campaign. Raises UsageError."""
    return calendar(_begun(folder)[0], system_clock().now())


def refresh(folder: Path) -> None:
    """Write both files again after a person's command, unless a coordinator runs, which does so itself. As above."""
    status, campaign = _begun(folder)
    if status.coordinator is None:
        write_files(status, campaign, system_clock().now())


def write_files(status: FleetStatus, campaign: Campaign, now: datetime) -> None:
    """Write them (mode 0600), each as a whole. Raises UsageError for what can't be read or written."""
    folder, own = campaign.folder, Templates.of_user(os.environ)
    attempts = read_attempts(folder)
    try:
        page = fleet_html(status, attempts, now, page=folder, templates=own)
    except ConfigError as error:
        page = fleet_html(status, attempts, now, page=folder, templates=BUILT_IN, problem=error.message)
    for name, content in ((PAGE, page), (CALENDAR, calendar(status, now))):
        try:
            write_atomic(folder / name, content.encode())
        except OSError as error:
            raise UsageError(
                f"{folder / name} can't be written: {error.strerror}",
                remedy="Run it as the user who runs `upgrader fleet run`.",
            ) from error


def _begun(folder: Path) -> tuple[FleetStatus, Campaign]:
    status = fleet_status(folder)
    if status.campaign is None:
        raise UsageError(f"{folder} has no campaign yet", remedy="Begin one: upgrader fleet run")
    return status, status.campaign
