"""`upgrader recover`: a cluster whose API doesn't answer, back from the controllers' last-known-good copies."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import click

from upgrader.cli.carry_out import carry_out
from upgrader.cli.locking import cluster_lock, lock_holder
from upgrader.cli.wiring import Session, open_session
from upgrader.engine.lock import folder_lock
from upgrader.errors import RollbackFailed, UsageError
from upgrader.model.cluster import Cluster
from upgrader.model.settings import AvailabilitySettings
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.pipeline import recover_pipeline, recovered
from upgrader.ui.diagnosis import print_diagnosis
from upgrader.ui.steps import print_steps

__all__ = ["recover"]


@click.command()
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Only this controller (may be repeated).")
@click.option("--dry-run", is_flag=True, help="Say what is wrong and what would be done; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@click.pass_context
def recover(context: click.Context, hosts: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Bring the API back over SSH, from the last-known-good copies on the controllers, and mend what took it away.

    Says what is wrong first. Then starts what is stopped, puts the last-known-good kube-apiserver in place where none
    serves, takes its Helm release back to the revision that this one was made of, and waits until the copy is no
    longer needed. Stopped half-way, it goes on when it is run again. etcd's data is never touched.

    \b
    Exit codes: 0 healthy, 2 wrong usage or files, 5 needs a person, 6 another run is at work, 130 interrupted.
    """
    folder: Path = context.obj
    with open_session(folder) as session:
        _check_names(session.cluster, hosts)
        if dry_run:
            _recover(session, hosts, dry_run=True, yes=yes)
            return
        with folder_lock(folder, lock_holder()):
            _recover(session, hosts, dry_run=False, yes=yes)


def _recover(session: Session, only: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    tools = session.recover_tools(only)
    seen = tools.look()
    print_diagnosis(seen)
    missing = recovered(tools) if seen.healthy else ""
    if seen.healthy and not missing:
        click.echo("Nothing to recover: the API answers, and the cluster is healthy.", err=True)
        return
    if missing:
        click.echo(f"The API answers, but: {missing}", err=True)
    pipeline = recover_pipeline(seen, tools)
    if not seen.blocked:
        print_steps(pipeline)
    if dry_run:
        return
    if seen.blocked:
        raise _for_a_person(seen)
    if not yes:
        click.confirm("Start?", abort=True, err=True)
    # Without an API there is no lock to take, and no Helm of another run can be at work either.
    lock = cluster_lock(session, take_over=False) if seen.api.answers else nullcontext(None)
    with lock as held:
        carry_out(_unobserved(session), pipeline, label="recover", on_failure="stop", held=held)


def _unobserved(session: Session) -> Session:
    """Nobody has to be told that requests fail while there is no API."""
    return replace(session, settings=replace(session.settings, availability=AvailabilitySettings(0.0)))


def _check_names(cluster: Cluster, names: tuple[str, ...]) -> None:
    known = [host.name for host in cluster.controllers]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)}: no such controller in the inventory", remedy=f"Controllers: {', '.join(known)}"
        )


def _for_a_person(seen: Diagnosis) -> RollbackFailed:
    remedies = [finding.remedy for finding in seen.findings if finding.severity == "error" and finding.remedy]
    return RollbackFailed(
        f"only a person can help here: {seen.blocked}", remedy=remedies[0] if remedies else "See what is said above."
    )
