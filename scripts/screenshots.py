"""Makes the pictures of docs/reports.md from the reports of example runs (`make screenshots`; needs chromium)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from testkit import example_runs as runs
from testkit.browser import Browser
from upgrader.reporting.report.html import report_html

OUTAGES = {"recovered": (28.0, 77.0)}
"""When the API answered nothing, in seconds since the run began."""
PICTURES = {  # the run, the width, dark or light
    "good": (runs.GOOD, 1000, False),
    "rolled-back": (runs.ROLLED_BACK, 1000, False),
    "recovered": (runs.RECOVERED, 1000, True),
    "phone": (runs.ROLLED_BACK, 390, False),
}


def main(folder: Path) -> None:
    """Write the pictures into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Browser(Path(scratch) / "profile") as browser:
        for name, (story, width, dark) in PICTURES.items():
            series = runs.series_of(story, failing=OUTAGES.get(name, (0.0, 0.0)))
            page = Path(scratch) / f"{name}.html"
            page.write_text(report_html(runs.state_of(story), series=series), encoding="utf-8")
            browser.show(page, width=width, dark=dark)
            browser.screenshot(folder / f"{name}.png", most=1500)
            print(folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
