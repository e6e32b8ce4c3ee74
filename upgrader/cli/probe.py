"""`upgrader probe`: what clients of the API see."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import DURATION
from upgrader.cli.ended_by_signals import ended_by_signals
from upgrader.cli.output import TEXT_OR_JSON

if TYPE_CHECKING:
    from upgrader.model.availability import Availability

__all__ = ["probe"]


@click.command()
@click.option(
    "--rate",
    "requests_per_second",
    type=click.FloatRange(0.1, 1000),
    help="Requests per second, in total for all addresses and kinds of client (default: "
    "`availability.requestsPerSecond`, or its default if that is 0).",
)
@click.option("--for", "seconds", type=DURATION, default=math.inf, help="Stop after this long (default: Ctrl-C).")
@click.option(
    "--address",
    "addresses",
    metavar="URL",
    multiple=True,
    help="Also probe this address (https://HOST:PORT), such as a controller's (repeatable).",
)
@TEXT_OR_JSON
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
@click.pass_obj
def probe(
    folder: Path,
    requests_per_second: float | None,
    seconds: float,
    addresses: tuple[str, ...],
    output: str,
    as_json: bool,
) -> None:
    """Send requests to the API as its clients do, until Ctrl-C or for a time, and count failures.

    Reads, writes, lists and watches, on new and reused connections, over HTTP/1.1 and HTTP/2. It writes only to its own
    ConfigMap, kube-system/upgrader-availability, and deletes it at the end.

    Exits with 0 even if requests failed.
    """
    from upgrader.cli.ui.availability import live_line
    from upgrader.config.kubeconfig_context import find_context
    from upgrader.config.load import load_settings
    from upgrader.gates.availability.prober_control import AvailabilityProbe
    from upgrader.model.settings import AvailabilitySettings

    settings = load_settings(folder, os.environ)
    kubeconfig, context = find_context(settings, os.environ)
    configured = settings.availability
    # A configured 0 turns off the prober of runs; here, it was asked for.
    rate = requests_per_second or configured.requests_per_second or AvailabilitySettings.requests_per_second
    prober = AvailabilityProbe(
        kubeconfig,
        context=context,
        requests_per_second=rate,
        addresses=(*configured.addresses, *addresses),
    )
    enough = threading.Event()
    with ended_by_signals(enough.set), live_line(sys.stderr) as show, prober:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and prober.counts() is not None:
            if enough.wait(min(1.0, left)):
                break
            show(prober.snapshot())
        seen = prober.stop()
    _print(seen, as_json=as_json or output == "json")


def _print(seen: Availability, *, as_json: bool) -> None:
    from upgrader.cli.ui.availability import print_availability

    if as_json:
        click.echo(json.dumps(asdict(seen), indent=2))
    else:
        print_availability(seen, sys.stdout)
