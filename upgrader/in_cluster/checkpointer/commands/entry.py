"""The command line: `run` on the node, and what an operator on it needs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from upgrader.in_cluster.checkpointer.checkpointer_errors import CheckpointerError
from upgrader.in_cluster.checkpointer.commands import node_commands
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.logs import LOG, set_up
from upgrader.in_cluster.checkpointer.loop import Loop
from upgrader.in_cluster.checkpointer.observation.api_client import Api
from upgrader.in_cluster.checkpointer.observation.local_node import Machine
from upgrader.in_cluster.checkpointer.observation.observer import Observer
from upgrader.in_cluster.checkpointer.observation.pull_records import FOLDER
from upgrader.in_cluster.checkpointer.observation.scope import Scope
from upgrader.in_cluster.checkpointer.reporting.health_server import Health, ask_peer, serve
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod
from upgrader.in_cluster.checkpointer.storage.node_lock import NodeLock
from upgrader.in_cluster.checkpointer.storage.store import Store

_TIMEOUT_SECONDS = 3.0
_SOCKET = "/run/containerd/containerd.sock"
_STALE_PASSES = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 the node or a source is not as it must be, 2 usage."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except (CheckpointerError, OSError) as error:
        sys.stderr.write(f"pod-checkpointer: {error}\n")
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pod-checkpointer", description="Keeps last-known-good generations of this node's control-plane pods."
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path("/etc/kubernetes"),
        help="folder that has manifests/ and the checkpoints (default: %(default)s)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="keep the checkpoints of this node")
    run.set_defaults(command=_run)
    run.add_argument("--port", type=_port, default=10280, help="health and metrics of the DaemonSet's pod")
    run.add_argument("--standby-port", type=_port, default=10281, help="the same for the standby pod")
    run.add_argument("--interval", type=_seconds, default=2.0, metavar="S", help="time between passes")
    run.add_argument(
        "--ready-for",
        type=_seconds,
        default=Settings.ready_for,
        metavar="S",
        help="how long a pod must have been Ready to become a generation",
    )
    run.add_argument(
        "--grace",
        type=_seconds,
        default=Settings.grace,
        metavar="S",
        help="how long the kubelet may take to restart a pod by itself",
    )
    run.add_argument(
        "--release-after",
        type=_seconds,
        default=Settings.release_after,
        metavar="S",
        help="how long the API and the workload's own pod must be back before a standby pod is deactivated",
    )
    run.add_argument(
        "--keep", type=_count, default=Settings.keep, metavar="N", help="good generations to keep for each workload"
    )
    run.add_argument(
        "--kubeconfig",
        type=Path,
        default=Path("/etc/kubernetes/kubelet.conf"),
        help="the kubelet's credential (default: %(default)s)",
    )
    run.add_argument(
        "--namespace",
        action="append",
        metavar="NAME",
        help="namespace whose pods may have a checkpoint; can be repeated (default: kube-system)",
    )
    run.add_argument(
        "--workload",
        action="append",
        metavar="NAMESPACE/NAME",
        help="keep checkpoints of this workload only; can be repeated (default: all of the namespaces)",
    )
    run.add_argument(
        "--any-image",
        action="store_true",
        help="the kubelet doesn't verify the credentials of images (its policy is NeverVerify)",
    )
    run.add_argument("--runtime-socket", default=_SOCKET, help="CRI socket (default: %(default)s)")
    run.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")

    _add_node_commands(commands)
    return parser


def _add_node_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    status = commands.add_parser(
        "status", help="show the last-known-good generation of each workload, and whether its standby pod is active"
    )
    status.set_defaults(command=node_commands.status)
    generations = commands.add_parser(
        "generations", help="show where each generation on disk came from, and whether it can be started"
    )
    generations.set_defaults(command=node_commands.generations)
    restore = commands.add_parser("restore", help="start a generation's standby pod now, whatever the API's state")
    restore.set_defaults(command=node_commands.restore)
    restore.add_argument("workload", metavar="WORKLOAD", help="name of the workload, or NAMESPACE/NAME")
    restore.add_argument(
        "--generation", type=int, metavar="N", help="number of the generation (default: the best, usually the newest)"
    )
    restore.add_argument(
        "--missing-images", action="store_true", help="allow a generation whose images the kubelet has to pull"
    )
    for command in (status, generations):
        command.add_argument("--json", action="store_true", help="print JSON")
    for command in (generations, restore):
        command.add_argument("--runtime-socket", default=_SOCKET, help="CRI socket (default: %(default)s)")


def _run(options: argparse.Namespace) -> int:
    set_up(options.log_level)
    node, host, name, namespace = (os.environ.get(n, "") for n in ("NODE_NAME", "HOST_IP", "POD_NAME", "POD_NAMESPACE"))
    if not (node and name and namespace):
        raise CheckpointerError("NODE_NAME, POD_NAME and POD_NAMESPACE must be set in the environment (the chart does)")
    standby_of = os.environ.get("CHECKPOINT_OF", "")
    port, peer = (options.standby_port, options.port) if standby_of else (options.port, options.standby_port)
    settings = Settings(options.ready_for, options.grace, options.release_after, options.keep)
    board = Board()
    api = Api(options.kubeconfig, node, _TIMEOUT_SECONDS, host)
    scope = Scope(frozenset(options.namespace or ("kube-system",)), frozenset(options.workload or ()))
    own = partial(_is_own, namespace=namespace, image_owner=standby_of or name.rpartition("-")[0])
    store = Store(options.root)
    lock = NodeLock(store.folder / "lock", port)
    loop = Loop(
        store=store,
        lock=lock,
        observer=Observer(
            api,
            Machine(options.runtime_socket, _TIMEOUT_SECONDS, store, None if options.any_image else FOLDER),
            own,
            name,
            {options.port: options.standby_port},
            scope=scope,
        ),
        conditions=api,
        board=board,
        settings=settings,
        interval_seconds=options.interval,
        node=node,
        own=own,
        standby=bool(standby_of),
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    health = Health(
        board,
        time.monotonic,
        _STALE_PASSES * options.interval,
        lambda: ask_peer(host or "127.0.0.1", lock.holders_port() or peer),
    )
    server = serve(host, port, health)
    LOG.info("started", extra={"node": node, "port": port, "copy_of": standby_of})
    try:
        loop.run(stop)
    finally:
        server.shutdown()
        server.server_close()
        api.close()
    LOG.info("stopped")
    return 0


def _is_own(pod: Pod, namespace: str, image_owner: str) -> bool:
    """Whether a pod is the checkpointer's own: one of the DaemonSet that this instance, or the pod it is a standby pod
    of, belongs to.
    """
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or []
    return meta["namespace"] == namespace and any(o.get("controller") and o["name"] == image_owner for o in owners)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400 seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 100")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return value
