"""`upgrader lab`: real local clusters to try things on."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.global_options import without_choice
from upgrader.cli.lab_origin import OriginOptions, origin_options
from upgrader.cli.output import print_text
from upgrader.errors import Interrupted, Locked, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from upgrader.lab.lifecycle import Lab
    from upgrader.lab.progress_port import LabProgress

__all__ = ["lab"]

_KUBERNETES = "v1.36.3"
_name = click.option("--name", help="The lab (default: the one of -C DIR, or the only one).")


@click.group(cls=GroupOfWholeLines)
def lab() -> None:
    """Real clusters on this machine: Kubernetes by kubeadm, on systemd-nspawn nodes."""


@lab.command()
@click.option("--controllers", type=int, default=1, show_default=True, help="Number of controllers.")
@click.option("--workers", type=int, default=0, show_default=True)
@click.option(
    "--kubernetes", "version", metavar="vX", default=_KUBERNETES, show_default=True, help="Kubernetes version."
)
@click.option("--name", default="demo", show_default=True, help="Name of the lab and of its folder in .lab/.")
@click.option(
    "--registry", is_flag=True, help="Pull images from a private registry instead of preloading them on the nodes."
)
@click.option("--token", is_flag=True, help="Kubeconfig with a ServiceAccount token instead of a client certificate.")
@click.option("--port", type=int, default=6443, show_default=True, help="Port of the API.")
@click.option("--ssh-address", is_flag=True, help="SSH addresses that differ from the nodes' addresses in Kubernetes.")
@click.option("--vip", is_flag=True, help="API at a virtual IP that keepalived moves between controllers.")
@click.option("--dual-stack", is_flag=True, help="Dual-stack: IPv4 and IPv6 for nodes, pods and Services.")
@click.option("--ipv6", is_flag=True, help="IPv6 only, for machines, pods and Services.")
@click.option("--hardened", is_flag=True, help="Audit log, encryption at rest, and flags of hardening benchmarks.")
@click.option("--external-etcd", is_flag=True, help="External etcd, as a service on its own node.")
@click.option("--host-names", is_flag=True, help="Host names that differ from the node names.")
@click.option("--bastion", is_flag=True, help="SSH to all machines only through a bastion.")
@click.option("--ingress", is_flag=True, help="A load balancer in front of the workers, with guard's agent on it.")
@click.option(
    "--debian", type=int, metavar="N", default=12, show_default=True, help="Debian release of the machines: 12 or 13."
)
@click.option("--containerd", metavar="vX", default="", help="containerd 2.x, built here, instead of Debian's.")
@click.option("--flannel", is_flag=True, help="flannel as pod network, instead of the lab's own routes.")
@click.option("--layout", metavar="NAME", default="", help="kubespray: files, flags and etcd as Kubespray has them.")
@click.option(
    "--like",
    "copied",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Another cluster's versions, size, flags, labels and objects, from `upgrader rehearse copy --out FILE`; other "
    "options override it.",
)
@origin_options
@click.pass_context
def up(
    context: click.Context,
    /,
    name: str,
    controllers: int,
    workers: int,
    version: str,
    copied: Path | None,
    origin: OriginOptions,
    **switches: Any,
) -> None:
    """Create a lab, or start a stopped one; its cluster folder is .lab/NAME.

    The default is the simplest cluster. The options make it resemble other clusters. With --like, the lab is also
    adopted if the copied cluster is, and gets the copied objects; what a lab can't have is listed.
    """
    from upgrader.cli.lab_progress import progress
    from upgrader.lab.existing_labs import find
    from upgrader.lab.lifecycle import Lab
    from upgrader.lab.spec import LabSpec

    folder: Path = context.obj / ".lab" / name
    others: _LikeLab | None = None
    if copied is not None:
        chosen = {key: context.params[key] for key in ("controllers", "workers", "version") if _given(context, key)}
        others = _like(copied, context.params["layout"], **chosen)
        controllers, workers, version = others.controllers, others.workers, others.version
        switches["like"] = others.likeness
    elif (existing := find(name)) is not None and existing.spec.like:
        # It is only started: what it has of another cluster needs no file.
        was = existing.spec
        controllers = controllers if _given(context, "controllers") else was.controllers
        workers = workers if _given(context, "workers") else was.workers
        version = version if _given(context, "version") else was.kubernetes
        switches["like"] = was.like
    spec = LabSpec(name, controllers, workers, version, mirror=bool(origin.mirror), **switches)
    for line in others.left_out if others else ():
        print_text(f"not in the lab: {line}", err=True)
    origin_for = origin.origin((version,))
    with _stoppable("lab up"), progress() as display:
        made = Lab.up(spec, folder, display, origin_for(display))
    if not made.filled and others is None:
        raise UsageError(
            f"lab {name} lacks objects of the copied cluster, because its first `lab up` was not completed",
            remedy=f"Name the copy again: upgrader lab up --name {name} --like FILE",
        )
    if not made.filled and others is not None:
        _fill(made, others)
    _print_summary(made, adopted=others is not None and others.adopted)


@lab.command()
@_name
@click.pass_obj
def status(folder: Path, name: str | None) -> None:
    """Show the nodes of a lab, or of all labs."""
    from rich.console import Console

    from upgrader.lab.existing_labs import labs
    from upgrader.lab.lifecycle import Lab

    found = labs()
    if name or any(placement.folder == folder for placement in found):
        found = [_find(folder, name).placement]
    if not found:
        click.echo("There is no lab on this machine. Create one: upgrader lab up")
    for placement in found:
        _print_nodes(Lab(placement), Console())


@lab.command(context_settings={"ignore_unknown_options": True})
@click.argument("node")
@click.argument("command", nargs=-1)
@_name
@click.pass_obj
def shell(folder: Path, node: str, command: tuple[str, ...], name: str | None) -> None:
    """Log in to NODE as root, or run COMMAND there: one argument is a shell script, several are a program and its
    arguments."""
    remote = command if len(command) < 2 else [shlex.join(command)]
    arguments = [*_find(folder, name).ssh(node), *remote]
    os.execvp(arguments[0], arguments)  # noqa: S606 - the terminal becomes ssh's


@lab.command()
@click.argument("node")
@_name
@click.pass_obj
def crash(folder: Path, node: str, name: str | None) -> None:
    """Power NODE off without a shutdown."""
    found = _find(folder, name)
    found.crash(node)
    click.echo(f"{node} is powered off. Power it on: upgrader lab boot {node} --name {found.placement.spec.name}")


@lab.command()
@click.argument("node")
@_name
@click.pass_obj
def boot(folder: Path, node: str, name: str | None) -> None:
    """Power NODE on; its disk is unchanged."""
    _find(folder, name).boot(node)
    click.echo(f"{node} is up; its kubelet starts its pods.")


@lab.command()
@click.argument("node")
@_name
@click.pass_obj
def join(folder: Path, node: str, name: str | None) -> None:
    """Reset NODE to a new machine (kubeadm reset), and join it to the cluster again with kubeadm."""
    from upgrader.cli.lab_progress import progress

    with progress() as display:
        _find(folder, name, display).join(node)
    click.echo(f"{node} has joined. A controller of an adopted cluster: upgrader adopt --new-controllers")


@lab.command()
@click.argument("node")
@_name
@click.pass_obj
def leave(folder: Path, node: str, name: str | None) -> None:
    """Remove the worker NODE from the cluster (kubeadm reset), and keep it as a spare machine. Drain it first."""
    from upgrader.cli.lab_progress import progress

    with progress() as display:
        _find(folder, name, display).leave(node)
    click.echo(f"{node} has left, and is a spare machine. Remove it from `workers` in hosts.yml.")


@lab.command()
@_name
@click.pass_obj
def connect(folder: Path, name: str | None) -> None:
    """Set up pod routes to nodes that your own playbook joined: a lab has no CNI plugin that does it."""
    from upgrader.cli.lab_progress import progress

    with progress() as display:
        _find(folder, name, display).connect()
    click.echo("Pods of all nodes can reach each other.")


@lab.command()
@click.argument("snapshot")
@_name
@click.pass_obj
def save(folder: Path, snapshot: str, name: str | None) -> None:
    """Save the disks and the cluster folder as SNAPSHOT; the nodes reboot."""
    from upgrader.cli.lab_progress import progress

    with progress() as display:
        found = _find(folder, name, display)
        found.save(snapshot)
    click.echo(f"Saved. Restore it: upgrader lab restore {snapshot} --name {found.placement.spec.name}")


@lab.command()
@click.argument("snapshot")
@_name
@click.pass_obj
def restore(folder: Path, snapshot: str, name: str | None) -> None:
    """Restore SNAPSHOT, discarding later changes; runs/ in the cluster folder is kept."""
    from upgrader.cli.lab_progress import progress

    with progress() as display:
        found = _find(folder, name, display)
        found.restore(snapshot)
    click.echo("All nodes are up; their kubelets start the pods.")


@lab.command()
@_name
@click.option("--force", is_flag=True, help="Also while a run is active on it.")
@click.pass_obj
def down(folder: Path, name: str | None, force: bool) -> None:
    """Remove a lab, its cluster folder, and everything else that it created on this machine."""
    from upgrader.engine.locks.folder_lock import folder_holder

    found = _find(folder, name)
    holder = None if force else folder_holder(found.placement.folder)
    if holder is not None:
        raise Locked(
            f"{holder.holder} has been working on lab {found.placement.spec.name} since "
            f"{holder.since:%Y-%m-%d %H:%M:%SZ}; nothing was removed",
            remedy="Wait for it to end, or stop it first. To remove the lab anyway, add --force.",
        )
    found.down()
    click.echo(f"Lab {found.placement.spec.name} was removed.")


@lab.command()
@click.option("--kubernetes", "versions", metavar="vX", multiple=True, help="Kubernetes version; may be repeated.")
@origin_options
def build(versions: tuple[str, ...], origin: OriginOptions) -> None:
    """Build or download what labs need, and cache it: once per machine and version."""
    from upgrader.cli.lab_progress import progress
    from upgrader.lab.build_parts import prepare, probably_prepared
    from upgrader.lab.host_capabilities import host_capabilities, require
    from upgrader.lab.spec import LabSpec

    wanted = versions or (_KUBERNETES,)
    origin_for = origin.origin(wanted)
    with _stoppable("lab build"), progress() as display:
        source = origin_for(display)
        require(host_capabilities(), None, all(probably_prepared(version, source) for version in wanted))
        for version in wanted:
            prepare(LabSpec("build", kubernetes=version), source, display)
    click.echo(f"In the cache: Kubernetes {', '.join(wanted)}.")


@lab.command("node-source")
@click.option("--kubernetes", "version", metavar="vX", default=_KUBERNETES, show_default=True, help="Their version.")
@origin_options
def node_source_command(version: str, origin: OriginOptions) -> None:
    """Print the paths of a version's kubelet, kubeadm and kubectl, as variables for playbooks/upgrade-node.yml."""
    import yaml

    from upgrader.cli.lab_progress import progress
    from upgrader.lab.build_parts import probably_prepared
    from upgrader.lab.host_capabilities import host_capabilities, require
    from upgrader.lab.node_source import node_source

    origin_for = origin.origin((version,))
    with _stoppable("lab node-source"), progress() as display:
        source = origin_for(display)
        require(host_capabilities(), None, probably_prepared(version, source))
        found = node_source(version, display, source)
    click.echo(yaml.safe_dump(found.variables(), sort_keys=False), nl=False)


@dataclass(frozen=True)
class _LikeLab:
    """A lab like another cluster, before it is made."""

    controllers: int
    workers: int
    version: str
    likeness: str
    adopted: bool
    objects: tuple[Mapping[str, Any], ...]
    left_out: tuple[str, ...]


def _given(context: click.Context, name: str) -> bool:
    """Whether an option is on the command line."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _like(
    file: Path, layout: str, *, controllers: int | None = None, workers: int | None = None, version: str | None = None
) -> _LikeLab:
    """From a copy's file; None: as the copied cluster has it. Nothing is created."""
    from upgrader.config.cluster_copy_yaml import read_copy
    from upgrader.lab.likeness import chosen_nodes, like, objects_of

    copied = read_copy(file)
    nodes = chosen_nodes(copied, controllers, workers)
    likeness, left_out = like(copied, nodes, layout)
    has = sum(node.controller for node in nodes), sum(not node.controller for node in nodes)
    found = controllers or has[0], has[1] if workers is None else workers
    objects, others = objects_of(copied, sum(found))
    return _LikeLab(
        *found,
        version or str(copied.kubernetes),
        likeness.text(),
        copied.adopted,
        objects,
        (*copied.not_copied, *left_out, *others),
    )


def _fill(made: Lab, others: _LikeLab) -> None:
    """Adopt the lab, if the copied cluster is adopted; then create its objects."""
    from upgrader.cli.adopt import adopt_cluster
    from upgrader.cli.lab_progress import progress
    from upgrader.lab.lifecycle import Lab

    if others.adopted:
        with without_choice():  # of the operator's own cluster
            adopt_cluster(made.placement.folder, yes=True, take_over=False)
    with _stoppable("lab up"), progress() as display:
        filled = Lab(made.placement, display).fill(others.objects)
    for reason in filled.refused:
        print_text(f"refused in the lab: {reason}", err=True)
    for name in filled.unready:
        print_text(f"not Ready in the lab: {name}", err=True)


def _find(folder: Path, name: str | None, progress: LabProgress | None = None) -> Lab:
    """The lab of that name; without a name the one whose cluster folder is -C, or else the only one."""
    from upgrader.lab.existing_labs import labs
    from upgrader.lab.lifecycle import Lab

    if name:
        return Lab.find(name, progress)
    found = labs()
    candidates = [placement for placement in found if placement.folder == folder] or found
    if len(candidates) == 1:
        return Lab(candidates[0], progress)
    if not candidates:
        raise UsageError("there is no lab on this machine", remedy="Create one: upgrader lab up")
    names = ", ".join(placement.spec.name for placement in candidates)
    raise UsageError(f"there are several labs: {names}", remedy="Choose one with --name.")


def _print_nodes(found: Lab, console: Console) -> None:
    from rich.table import Table

    spec = found.placement.spec
    # No title of the table: that is broken where the table ends, in the middle of a path.
    console.print(
        f"lab {spec.name} ({spec.kubernetes}, {found.placement.folder})", soft_wrap=True, highlight=False, markup=False
    )
    table = Table()
    for column in ("node", "address", "machine", "kubernetes", "kubelet"):
        table.add_column(column)
    for line in found.status():
        power = "[green]on[/]" if line.running else "[red]off[/]"
        style = {"Ready": "green", "": "dim"}.get(line.kubernetes, "red")
        table.add_row(
            line.node.name, line.node.address, power, f"[{style}]{line.kubernetes or '-'}[/]", line.version or "-"
        )
    console.print(table)


def _print_summary(made: Lab, *, adopted: bool) -> None:
    from rich.console import Console

    name, folder = made.placement.spec.name, made.placement.folder
    first = next(node.name for node in made.placement.nodes if node.role in ("load-balancer", "controller"))
    shown = Path(os.path.relpath(folder)) if folder.is_relative_to(Path.cwd()) else folder
    console = Console(stderr=True, highlight=False)
    _print_nodes(made, console)
    console.print("Next:", style="bold")
    console.print(f"  export KUBECONFIG={shown}/kubeconfig", soft_wrap=True)
    console.print(f"  upgrader -C {shown} {'plan' if adopted else 'adopt'}", soft_wrap=True)
    console.print(f"  upgrader lab shell {first} --name {name}", soft_wrap=True)


@contextmanager
def _stoppable(what: str) -> Iterator[None]:
    """SIGTERM and SIGHUP act like Ctrl-C, so that they too leave nothing behind. Raises Interrupted."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            f"{what} was stopped; incomplete files were removed",
            remedy="Run it again: completed builds are cached.",
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
