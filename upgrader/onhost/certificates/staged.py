"""Renews with the controller's own kubeadm, in a copy of /etc/kubernetes that only this kubeadm process sees.

kubeadm truncates and rewrites each file, a key before its certificate, without a backup: after a failure or a power
cut, kube-apiserver may have a key that doesn't match. So it first runs in a copy. As it always writes kubeconfigs to
/etc/kubernetes, it gets a mount namespace of its own, with the copy there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from upgrader.onhost.certificates.kept_files import DONE, install, keep, mark, owner_of
from upgrader.onhost.certificates.new_signer import AUTHORITY, NewSigner, authority_files
from upgrader.onhost.certificates.renewed_by_kubeadm import fault, files_of
from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    RunKubeadm = Callable[[str, Sequence[str]], None]
    """Runs kubeadm with these arguments, which sees the folder as /etc/kubernetes. Raises Failed."""

__all__ = ["KUBEADM_PATH", "check_inside", "forget_copy", "kubeadm", "renew", "run_in_namespace"]

KUBEADM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"
_STAGE = "stage"
_SECONDS = 120.0
_KINDS = (".crt", ".key", ".pub")
_ENTER = 'mount --bind -- "$1" "$2" && shift 2 && exec "$@"'


def renew(
    folder: str,
    renewal: str,
    kubernetes: str,
    certificates: str,
    names: Sequence[str],
    run: RunKubeadm,
    signer: NewSigner | None = None,
) -> list[str]:
    """Renew these certificates, by kubeadm's names; returns the paths that changed. `renewal` identifies it for the
    undo. With a `signer`, that CA issues them, and becomes the signing CA of this controller. Raises Failed if kubeadm
    did not renew one of them; /etc/kubernetes is then unchanged.
    """
    check_inside(kubernetes, certificates)
    places = {name: files_of(name, kubernetes, certificates) for name in names}
    stage = os.path.join(folder, _STAGE)
    _remove(stage)
    try:
        _copy(kubernetes, certificates, stage)
        staged = _in_stage(certificates, kubernetes, stage)
        if signer:
            signer.prepare(staged)
        fresh = {name: files_of(name, stage, staged) for name in names}
        before = {path: _content(path) for paths in fresh.values() for path in paths}
        for name, paths in fresh.items():
            run(stage, ("certs", "renew", name, "--cert-dir", certificates))
            if signer:
                signer.issued(name, kubernetes, stage)
            if any(_content(path) == before[path] for path in paths):
                raise Failed(f"kubeadm did not renew {name}, and reported no error")
            if why := fault(paths):
                raise Failed(f"kubeadm's files of {name} can't be used: {why}")
        if signer:
            signer.complete(certificates, staged)
            places = {AUTHORITY: authority_files(certificates), **places}
            fresh = {AUTHORITY: authority_files(staged), **fresh}
            if why := fault(fresh[AUTHORITY]):
                raise Failed(f"the new CA can't be used: {why}")
        keep(folder, renewal, places)
        changed = []
        for name, paths in places.items():
            new = [_content(path) for path in fresh[name]]
            install(
                [(os.path.realpath(path), new[number], owner_of(os.stat(path))) for number, path in enumerate(paths)]
            )
            changed += paths
        mark(folder, DONE)
        return changed
    finally:
        _remove(stage)


def forget_copy(folder: str) -> None:
    """Remove the copy that a killed renewal left: it contains keys, the CA's too."""
    _remove(os.path.join(folder, _STAGE))


def check_inside(kubernetes: str, certificates: str) -> None:
    """Raises Failed for a folder of certificates outside the copy."""
    inside = os.path.normpath(certificates).startswith(os.path.join(kubernetes, ""))
    if not inside or not os.path.isdir(certificates):
        raise Failed(f"{certificates}, kubeadm's folder of certificates, is not a folder below {kubernetes}")


def run_in_namespace(kubernetes: str) -> RunKubeadm:
    """kubeadm in a mount namespace, which ends with it."""

    def run(stage: str, arguments: Sequence[str]) -> None:
        enter = ("unshare", "--mount", "--", "sh", "-c", _ENTER, "sh", stage, kubernetes)
        kubeadm(*arguments, prefix=enter)

    return run


def kubeadm(*arguments: str, prefix: Sequence[str] = ()) -> str:
    """What kubeadm prints. Raises Failed with the end of what it wrote."""
    environment = dict(os.environ, LC_ALL="C", PATH=KUBEADM_PATH)
    try:
        done = subprocess.run(
            [*prefix, "kubeadm", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except FileNotFoundError as error:
        raise Failed(f"{error.filename} was not found on this host") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"kubeadm {' '.join(arguments)} timed out after {_SECONDS:.0f} s") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()[-1500:]
        raise Failed(
            f"kubeadm {' '.join(arguments)} failed with exit code {done.returncode}: {words or 'it printed no error'}"
        )
    return done.stdout.decode("utf-8", "replace")


def _copy(kubernetes: str, certificates: str, stage: str) -> None:
    """The files that kubeadm reads: kubeconfigs, certificates and keys. Not others, such as its etcd backups."""
    make_private(stage)
    target = _in_stage(certificates, kubernetes, stage)
    wanted = [(kubernetes, stage, (".conf",)), (certificates, target, _KINDS)]
    wanted.append((os.path.join(certificates, "etcd"), os.path.join(target, "etcd"), _KINDS))
    for source, copy, kinds in wanted:
        if os.path.isdir(source):
            os.makedirs(copy, mode=0o700, exist_ok=True)
            for name in os.listdir(source):
                if name.endswith(kinds) and os.path.isfile(os.path.join(source, name)):
                    shutil.copy2(os.path.join(source, name), os.path.join(copy, name))


def _in_stage(path: str, kubernetes: str, stage: str) -> str:
    return os.path.join(stage, os.path.relpath(path, kubernetes))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _remove(folder: str) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)
