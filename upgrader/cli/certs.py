"""`upgrader certs`: the certificates of the controllers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import click
import yaml

from upgrader.app.certificates import ShownCertificates, show_certificates
from upgrader.redaction.printable import printable
from upgrader.ui.certificates import print_certificates

__all__ = ["certs"]


@click.group()
def certs() -> None:
    """Show the certificates of the controllers."""


@certs.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="What is printed on standard output.",
)
@click.pass_obj
def show(folder: Path, output: Literal["table", "json", "yaml"]) -> None:
    """Show when each certificate of each controller ends, those that end first before the others.

    Reads /etc/kubernetes over SSH, kubeconfigs included, and the kubelet's own certificate; keys never leave the
    controllers. Changes nothing, and works without an API.

    \b
    Exit codes: 0 all are shown, also those that have ended; 2 wrong usage or files; 3 or 5 a controller could not be
    reached, or a file could not be read: what could be is shown.
    """
    shown = show_certificates(folder)
    if output == "json":
        click.echo(json.dumps(_described(shown), indent=2))
    elif output == "yaml":
        click.echo(printable(yaml.safe_dump(_described(shown), sort_keys=False, allow_unicode=True)), nl=False)
    else:
        print_certificates(shown, sys.stdout)
    shown.refuse_if_incomplete()


def _described(shown: ShownCertificates) -> dict[str, object]:
    files = [
        {
            "controller": item.host,
            "path": item.path,
            "subject": item.subject,
            "issuer": item.issuer,
            "not_before": f"{item.not_before:%Y-%m-%dT%H:%M:%SZ}",
            "not_after": f"{item.not_after:%Y-%m-%dT%H:%M:%SZ}",
            "authority": item.authority,
            "renewed_by": item.keeper,
        }
        for item in shown.files
    ]
    unreadable = [{"controller": item.host, "path": item.path, "why": item.why} for item in shown.unreadable]
    return {"certificates": files, "unreadable": unreadable, "not_asked": [error.message for error in shown.unread]}
