"""bench/results/public_files.json as a table: other people's files that were given to `adopt`, written by hand.

A file has `where` (a repository or a site), `path`, what is `odd` in it, the `outcome`, and often a `test` of it;
from the sixth set on, it has its `commit`, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["PublicFile", "public_files", "read_files"]

PublicFile = Mapping[str, str]

_INTRODUCTION = """\
## Other people's files

Static pods, kubeadm configurations, add-ons and inventories from public repositories and reports, as they were found on
2026-11-30, with values in place of variables and without flags that Kubernetes no longer has. `adopt` was given each of
them as part of a kubeadm cluster on fakes: it takes everything over, or refuses it by name before anything changes. Not
exactly as found: the files of gardener, SovereignCloudStack and issue 22802 are made from excerpts, Typhoon's static
pods are shortened, and of Heat's `kube-apiserver.json` only the first outcome was seen.

From kubermatic/kubeone on, they are a second set, which was chosen and tried on 2026-11-30. Each input is kubeadm's
cluster with what the file changes in it. Of these thirty, nine went wrong at first, and each of the nine has a test:
ports below 1024, a virtual IP, an undo that was refused, probes of CoreDNS, writable volumes, a name of `/etc/hosts`,
metrics at another address, and a refusal that named no reason.

From sighupio/fury-kubernetes-on-premises on, they are a third set, which was chosen and tried on the same day. One of
these thirty went wrong at first: a variable in `--secure-port`.

From the first of kubernetes-sigs/kubespray on, they are a fourth set, which was chosen and tried on the same day. Five
of these thirty went wrong at first: the tag of a scheduler with plugins, a vendor's version in a label, a file of
kube-vip at `/etc/hosts`, annotations of the kubelet's own, and a range of Services that was made up.

From mstelles/cks on, they are a fifth set, which was chosen and tried on the same day. Three of these thirty went wrong
at first: a volume without a name and a misspelt field, requests that were authorized otherwise, and advice about a
loopback address. From ridnarong/ino-kube on, ten more come from odder places. They were tried after that was corrected.

From julsemaan/cluster-api-provider-linode on, they are a sixth set, which another reader chose and tried on the same
day. Five of these thirty went wrong at first, and each of the five has a test: a static pod without an issuer of tokens
ended in a traceback, an undo was refused after what adopt itself had advised, a pod that couldn't start was taken over,
an error was about the chart's values instead of the flag, and etcd's manifest without flags was said to be gone. Files
from before v1.22 were tried as they are, and with an issuer.

From Ebenneil/k8 on, they are a seventh set, which another reader chose and tried on the same day. Four kinds of faults
were found at first, and each has a test: Helm's error about the version, advice on the issuer without its key, an
`apiVersion` that the kubelet refuses, and a misspelt field that was said to be lost. One file is etcd's: not tried.

From tuxnotes/k8s-start on, they are an eighth set, of static pods, configurations, inventories, add-ons and SSH's
configurations, which another reader chose and tried on the same day. Three kinds of faults were found at first, and
each has a test: Helm's error about a range of Services, a key that was to be written into `/dev/null`, and a remedy
that named a certificate by a path that the container doesn't have.

From erivandosena/k8s-onpremises on, they are a ninth set, which another reader chose and tried on 2026-12-01: GPUs,
Windows, no internet, hardened ones. Two of these thirty went wrong at first, and both have a test: the API at a
machine's own name, which Debian has at 127.0.1.1, and an image without a tag. Files that no repository could be named
for are called by what they are. Later, the delay of one of them was found to be cut off; it has a test, too.

From devopsyuva/manifests on, they are a tenth set, which another reader chose and tried on the same day. One of these
thirty went wrong at first, in two ways, and both have a test: a volume that the chart has was said to go, and the
advice for CoreDNS named a plugin that its version doesn't have.
"""


def read_files(path: Path) -> list[PublicFile]:
    """In the order of the page."""
    files: list[PublicFile] = json.loads(path.read_text())
    return files


def public_files(files: Sequence[PublicFile]) -> str:
    """That part of the page, as Markdown."""
    lines = [_INTRODUCTION, "| file | what is odd in it | `adopt` |", "|---|---|---|"]
    lines += [f"| {each['where']}: {each['path']} | {each['odd']} | {each['outcome']} |" for each in files]
    return "\n".join(lines) + "\n"
