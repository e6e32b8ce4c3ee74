"""`upgrader init`: a folder for a cluster that runs already."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.questions import write_files

if TYPE_CHECKING:
    from upgrader.app.ci_jobs import CiSystem, ProposedJobs
    from upgrader.app.front_end import FrontEnd
    from upgrader.app.initialization import Login

__all__ = ["init"]

_NEXT = {
    # The charts don't render before `adopt` has found their values: a check would name what isn't the operator's.
    "kubeadm": ("images push REGISTRY", "adopt"),
    "self-hosted": ("check", "plan"),
}


_SYSTEM = {"github": "GitHub", "gitlab": "GitLab"}


@click.command()
@click.option("--ssh-user", metavar="USER", default="root", show_default=True, help="User for SSH to the controllers.")
@click.option(
    "--ssh-key",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Private key for SSH (default: the agent's keys, or those that ssh uses).",
)
@click.option(
    "--ci",
    "system",
    type=click.Choice(["github", "gitlab"]),
    help="Also write jobs for this CI system; in an existing folder, only these.",
)
@click.option("--sudoers", is_flag=True, help="Write only the sudoers file that --ssh-user needs on the controllers.")
@click.option(
    "--systemd",
    is_flag=True,
    help="Write only a systemd service and timer that run the checks on this machine every day.",
)
@YES
@click.pass_obj
def init(
    folder: Path,
    ssh_user: str,
    ssh_key: Path | None,
    system: CiSystem | None,
    sudoers: bool,
    systemd: bool,
    yes: bool,
) -> None:
    """Inspect the cluster of your kubeconfig, and write the cluster folder that all other commands need.

    Uses kubectl's kubeconfig, or --kubeconfig and --context. Writes upgrader.yaml, its JSON Schema for editors,
    hosts.yml, .gitignore, and ssh/known_hosts once you have compared the fingerprints; links the kubeconfig. Existing
    files are kept. Changes nothing in the cluster.

    With --ci, merge requests are checked without credentials, and merged changes are planned, approved and run;
    docs/ci.md says what to set up. The folder must be in a git repository.

    --sudoers and --systemd write files to install, and print the command that installs them.

    Exit codes: 0 written, or all files exist already; 2 wrong usage or files; 3 no control plane that upgrader can
    upgrade; 5 the API did not answer.
    """
    shown = front_end(busy=not (sudoers or systemd))  # before the imports, which take seconds

    from upgrader.app.ci_jobs import propose_jobs
    from upgrader.app.initialization import Login
    from upgrader.app.machine_files import check_units, sudoers_rule

    if sudoers or systemd:
        made = [sudoers_rule(folder, ssh_user)] if sudoers else []
        made += [check_units(folder, os.environ)] if systemd else []
        for each in made:
            _write(each.files, each.kept, each.write, yes=yes)
            say(f"Next: {each.then}")
        return
    jobs = propose_jobs(folder, system) if system else None
    from upgrader.cli.ui.as_typed import program

    where = program(folder)
    if jobs is None or not (folder / "upgrader.yaml").exists():
        kind = _look_and_write(folder, Login(ssh_user, ssh_key.absolute() if ssh_key else None), shown, yes=yes)
        say(f"Next: {', then '.join(f'{where} {command}' for command in _NEXT[kind])}")
    if jobs is not None:
        _write(jobs.files, jobs.kept, jobs.write, yes=yes)
        _say_what_is_left(jobs)


def _look_and_write(folder: Path, login: Login, shown: FrontEnd, *, yes: bool) -> str:
    """The cluster's folder; returns which kind of control plane it has."""
    from upgrader.app.initialization import look_at_cluster
    from upgrader.cli.ui.found_cluster import print_found

    with shown.busy("asking the cluster…"):
        found = look_at_cluster(folder, login)
    print_found(found, sys.stdout)
    for name, why in found.silent.items():
        say(f"{name}: {why}")
    trust = bool(found.keys) and not yes and click.confirm("Are these the controllers' own fingerprints?", err=True)
    if found.keys and not trust:
        say(
            "The host keys are not written: log in to each controller once with ssh, or write ssh/known_hosts yourself."
        )
    new = [*found.files(trust=trust), *([found.folder / "kubeconfig"] if found.links_kubeconfig else [])]
    _write(new, found.kept, lambda: found.write(trust=trust), yes=yes)
    return found.cluster.kind


def _write(new: Collection[Path], kept: Collection[Path], write: Callable[[], None], *, yes: bool) -> None:
    for path in kept:
        say(f"kept: {path}")
    if new:
        write_files(new, write, yes=yes)


def _say_what_is_left(jobs: ProposedJobs) -> None:
    if jobs.include:
        say(f"Add to .gitlab-ci.yml, below `include:`  - local: {jobs.include}")
    say(
        f"Next: in {_SYSTEM[jobs.system]}, create the environments {jobs.name}-plan and {jobs.name}, limited to "
        "protected branches, and add the credentials to both (docs/ci.md); then commit."
    )
