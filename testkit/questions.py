"""What people ask of the documentation, and what they may type into its search."""

from __future__ import annotations

import re

from testkit.command import REPOSITORY

_PAGE = (REPOSITORY / "docs/questions.md").read_text()
ROWS = [line for line in _PAGE.splitlines() if "](" in line]
"""The page's rows."""
_ROW = re.compile(r"^\| ([^|]*\?) \| \[[^]]*\]\(([^)#]+)", re.MULTILINE)
PAGES = dict(_ROW.findall(_PAGE))
"""Question of the page → the page with its answer."""
WORDS = {
    "How do I try it without my own cluster?": "try demo cluster",
    "How do I install it without a checkout?": "install offline wheel",
    "Does it work with k3s, RKE2, EKS or GKE?": "k3s RKE2 managed",
    "Which ports and machines does it have to reach?": "needs ports firewalls",
    "Which versions and clusters are supported?": "supported versions kinds of clusters",
    "Does it work on an IPv6-only cluster?": "IPv6-only",
    "How long does it take?": "how long it takes minutes",
    "How do I use it without a network, or a registry?": "air-gapped",
    "How do I write the cluster folder?": "create cluster folder",
    "What changes for kubeadm on an adopted cluster?": "kubeadm on an adopted cluster",
    "How do I undo `adopt`, and stop using it?": "adopt undo stop using it",
    "How do I upgrade over several minors?": "several minor versions hops",
    "How do I upgrade kubelets as well?": "kubelet drain pools",
    "How do I change a flag of kube-apiserver?": "change a flag of kube-apiserver",
    "Which clients call APIs that the target removes?": "clients of removed APIs audit log",
    "How do I keep to a maintenance window?": "maintenance window",
    "How do I pause a run?": "pausing a run",
    "How do I upgrade many clusters?": "many clusters fleet",
    "How do I run it as a CI job?": "GitHub GitLab CI job",
    "Argo CD or Flux owns our releases: what now?": "Argo CD Flux",
    "How do I approve a step, or a pool?": "approval of a person",
    "What does this check mean, and how do I skip it?": "webhook failurePolicy check",
    "How long may a gate wait, and how do I change that?": "gate deadline timeout",
    "What do clients of the API notice?": "failed requests clients retry-after",
    "How do I get a newer upgrader?": "newer upgrader",
    "What is guard, and how do I switch it off?": "guard webhooks switch off",
    "The API does not answer: what now?": "API does not answer recover",
    "My runner was killed: what now?": "interrupted run resume",
    "My laptop went to sleep: what now?": "laptop sleeps",
    "Can I go back after a minor upgrade?": "minor upgrade go back",
    "How do I downgrade?": "downgrades",
    "A playbook can't be undone: how do I continue the rollback?": "resume done step by hand",
    "A controller is dead: how do I remove it?": "remove dead controller",
    "What does exit code 5 mean?": "exit code 5",
    "What does this word in a message mean?": "explain code messages name",
    "How do I back up and restore etcd?": "backup restore snapshot",
    "How do I renew certificates?": "renew certificates",
    "How do I replace the cluster's CA?": "rotate a new CA",
    "How do I reach nodes behind a bastion?": "ProxyJump bastion",
    "What may its credentials do?": "credential may do",
}
"""Question of the page → what a reader may type into the site's search."""
