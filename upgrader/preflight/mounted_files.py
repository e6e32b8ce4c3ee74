"""Components use the current files on their controllers, not the files from when their containers started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import Pod
from upgrader.ports import Hosts, KubeObject
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["check_mounted_files"]

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

# For each CONTAINER PATH INSIDE that is one file: prints its number where the container shows another inode, or none.
# A container is found by its process, as its control group is named after it.
_SCRIPT = r"""
inode() { stat -L -c %d:%i -- "$1" 2>/dev/null || echo none; }
number=0 before='' process=''
while [ $# -gt 0 ]; do
  number=$((number + 1))
  if [ "$1" != "$before" ]; then
    before=$1
    process=$(grep -ls -- "$1" /proc/[0-9]*/cgroup | head -n 1)
    process=${process%/cgroup}
  fi
  if [ -z "$process" ]; then echo "gone $number"
  elif [ ! -d "$2" ]; then
    shown=$(inode "$process/root$3")
    # The process may have ended in the meantime: then nothing is known.
    if [ ! -e "$process/cgroup" ]; then echo "gone $number"
    elif [ "$(inode "$2")" != "$shown" ]; then echo "replaced $number"; fi
  fi
  shift 3
done
"""


@dataclass(frozen=True)
class _MountedFile:
    """A path of a controller that a container there has mounted by itself: `inside` is the container's path for it."""

    pod: str
    component: str
    container: str
    """Its ID, as the container runtime has it."""
    path: str
    inside: str


def _mounted_files(pods: Iterable[KubeObject]) -> Iterator[_MountedFile]:
    """Those of the control plane's pods on a controller, folders among them; pods that end don't count."""
    for found in pods:
        pod = Pod.parse(found)
        if pod.namespace != SYSTEM or pod.finished or pod.deleting:
            continue
        running = {
            status["name"]: str(status.get("containerID", "")).rpartition("//")[2]
            for status in (found.get("status") or {}).get("containerStatuses") or ()
            if "running" in (status.get("state") or {})
        }
        volumes = {volume["name"]: volume for volume in found["spec"].get("volumes") or ()}
        for container in found["spec"]["containers"]:
            id_ = running.get(container["name"], "")
            if container["name"] not in _COMPONENTS or not id_:
                continue
            for mount in container.get("volumeMounts") or ():
                host_path = volumes.get(mount["name"], {}).get("hostPath") or {}
                if host_path and "irectory" not in (host_path.get("type") or "") and not mount.get("subPathExpr"):
                    path = "/".join(filter(None, (host_path["path"].rstrip("/"), mount.get("subPath"))))
                    yield _MountedFile(pod.name, container["name"], id_, path, mount["mountPath"])


@dataclass(frozen=True)
class _Compared:
    """A controller's mounted files: those that have been replaced since, and those of containers without a process."""

    replaced: tuple[_MountedFile, ...]
    not_found: tuple[_MountedFile, ...]


def _compared(hosts: Hosts, host: Host, files: Sequence[_MountedFile]) -> _Compared:
    """Raises HostError."""
    words = [word for each in files for word in (each.container, each.path, each.inside)]
    answers = [line.split() for line in hosts.run(host, ["sh", "-c", _SCRIPT, "sh", *words]).stdout.splitlines()]
    told = {
        kind: tuple(files[int(words[1]) - 1] for words in answers if words[:1] == [kind])
        for kind in ("replaced", "gone")
    }
    return _Compared(told["replaced"], told["gone"])


def check_mounted_files(context: PreflightContext) -> Iterator[Finding]:
    """The charts mount certificates and configuration as single files. `mv`, and most editors, create a new file: the
    container keeps the old one until it restarts, and changes to the new file have no effect.
    """
    for host in context.cluster.controllers:
        files = tuple(_mounted_files(context.pods_on(host.name)))
        if not files:
            continue
        try:
            found = _compared(context.hosts, host, files)
        except HostError as error:  # the other controllers are asked all the same
            title = f"{host.name}: it is unknown whether its control plane uses the current files"
            yield Finding("mounted-files.unknown", "unknown", title, error.message, error.remedy)
            continue
        if found.not_found:
            yield Finding(
                "mounted-files.unread",
                "info",
                f"{host.name}: it is unknown which files {first_few(_pods(found.not_found))} uses",
                "No process was found in a cgroup named after its container: the container was restarting, or the "
                "container runtime names cgroups differently.",
            )
        for pod in _pods(found.replaced):
            yield _replaced(host, pod, [each for each in found.replaced if each.pod == pod])


def _replaced(host: Host, pod: str, files: Sequence[_MountedFile]) -> Finding:
    component = files[0].component
    return Finding(
        "mounted-files.replaced",
        "warning",
        f"{host.name}: {pod} still uses the previous version of {first_few([each.path for each in files])}",
        "The file was replaced (by mv, an editor, or a tool that renames), but a container keeps the file that "
        "existed when it started. The new file, and each later change to it, takes effect only when the container "
        "restarts (after a power cut, for example).",
        f"Check the new file, then restart {component}: kubectl -n kube-system rollout restart deployment {component}. "
        "In future, write into the existing file: cat new > file",
    )


def _pods(files: Iterable[_MountedFile]) -> list[str]:
    return sorted({each.pod for each in files})
