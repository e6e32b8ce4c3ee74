"""Writes the page and the calendar of a campaign into its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from upgrader.app.wiring import system_clock
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ConfigError, UpgraderError, UsageError
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
    """Write them (mode 0600), each as a whole, whatever is wrong with the other one. Raises UsageError with all that
    can't be made or written.
    """
    problems = []
    contents: Mapping[str, Callable[[], str]] = {
        PAGE: lambda: _page(status, campaign, now),
        CALENDAR: lambda: calendar(status, now),
    }
    for name, content in contents.items():
        path = campaign.folder / name
        try:
            write_atomic(path, content().encode())
        except OSError as error:
            problems.append(f"{path} can't be written: {error.strerror}")
        except UpgraderError as error:
            problems.append(f"{path} can't be made: {error.message}")
        except Exception as error:  # noqa: BLE001  # a fault of ours in a report must end nothing else
            problems.append(f"{path} can't be made: {type(error).__name__}: {error}")
    if problems:
        raise UsageError("; ".join(problems), remedy="Run it as the user who runs `upgrader fleet run`.")


def _page(status: FleetStatus, campaign: Campaign, now: datetime) -> str:
    folder, own = campaign.folder, Templates.of_user(os.environ)
    attempts = read_attempts(folder)
    try:
        return fleet_html(status, attempts, now, page=folder, templates=own)
    except ConfigError as error:
        return fleet_html(status, attempts, now, page=folder, templates=BUILT_IN, problem=error.message)


def _begun(folder: Path) -> tuple[FleetStatus, Campaign]:
    status = fleet_status(folder)
    if status.campaign is None:
        raise UsageError(f"{folder} has no campaign yet", remedy="Begin one: upgrader fleet run")
    return status, status.campaign
