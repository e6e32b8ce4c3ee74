"""The planned flags, changed so that a program reads them all, with the files that they name, and then gets nowhere.

What each program does with these is in ADR 25, and is proven with real programs by tests/contract/test_trial.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upgrader.contract.flags import arguments_in

__all__ = ["NOWHERE", "NO_ETCD", "SCRATCH", "got_through", "harmless"]

SCRATCH = "/upgrader-trial"
"""An empty folder of the pod, for what a program writes."""
NOWHERE = "127.77.254.1:1"
"""An address of the pod itself, at which nothing listens."""
NO_ETCD = f"{SCRATCH}/no-etcd-ca.crt"
"""A file that does not exist: without it, no client of etcd is made. kube-apiserver then ends at once; it would try an
address at which nothing listens for 20 s.
"""

_NO_DELEGATION = {"authentication-kubeconfig": "", "authorization-kubeconfig": ""}
"""They would ask the API at start, with these credentials."""
_CHANGED: Mapping[str, Mapping[str, str]] = {
    "kube-apiserver": {
        "etcd-servers": f"https://{NOWHERE}",
        "audit-log-path": f"{SCRATCH}/audit.log",
    },
    "kube-controller-manager": _NO_DELEGATION,
    "kube-scheduler": _NO_DELEGATION,
    "kube-proxy": {},
}
"""Component → flag → its value instead of the given one, where it is given."""
_ADDED: Mapping[str, Mapping[str, str]] = {
    "kube-apiserver": {"etcd-cafile": NO_ETCD, "cert-dir": SCRATCH},
    "kube-controller-manager": {"master": f"https://{NOWHERE}", "cert-dir": SCRATCH},
    "kube-scheduler": {"master": f"https://{NOWHERE}", "cert-dir": SCRATCH, "write-config-to": f"{SCRATCH}/config"},
    "kube-proxy": {"write-config-to": f"{SCRATCH}/config"},
}
"""Component → flag → its value, given or not. The kubeconfig itself is read; `master` takes its server's place."""
_EVIDENCE = {"kube-apiserver": NO_ETCD, "kube-controller-manager": NOWHERE}
"""What a program says once it has read everything; the others end with 0."""
_RUNS_ON = frozenset({"kube-controller-manager"})
"""Those that say it, and don't end. kube-apiserver may say it earlier, as it looks after etcd beside its start: of it,
only the words count with which it ends."""


def harmless(component: str, arguments: Sequence[str], without: Sequence[str] = ()) -> tuple[str, ...]:
    """The arguments; those of the flags `without` are left out."""
    changed, added = _CHANGED[component], _ADDED[component]
    kept, replaced = list[str](), dict[str, str]()
    for given in arguments_in(arguments):
        flag = "" if given.letter else given.name
        if flag in changed or flag in added or flag in without:
            replaced.update({flag: changed[flag]} if flag in changed else {})
        else:
            kept += given.words
    return (*kept, *(f"--{flag}={value}" for flag, value in {**replaced, **added}.items()))


def got_through(component: str, words: str, exit_code: int | None) -> bool:
    """Whether a program has read its flags and files: by its last words, and its exit code (None: it runs)."""
    if exit_code is None and component not in _RUNS_ON:
        return False
    evidence = _EVIDENCE.get(component)
    return exit_code == 0 if evidence is None else evidence in words
