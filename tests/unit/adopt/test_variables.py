"""Variables of a static pod's container: a chart renders them by name, and the program sees what it saw before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.adopt.kubeadm_cluster import facts
from tests.unit.adopt.kubeadm_pods import FLAGS, kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import KubeadmFacts
from upgrader.adopt.same_everywhere import check_same_everywhere
from upgrader.adopt.static_pod_parts import check_static_pods
from upgrader.adopt.undo_differences import check_undo, released_in
from upgrader.adopt.values import base_values, extra_args
from upgrader.adopt.variables import variables_of
from upgrader.built_in_files import charts_folder
from upgrader.contract.variables import seen_variables
from upgrader.errors import Blocked
from upgrader.model.release import ReleaseSpec


def _container(*entries: tuple[str, Any]) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in entries]}


@pytest.mark.parametrize(
    ("entries", "seen"),
    [
        ([("PROXY", "http://proxy"), ("HTTPS_PROXY", "$(PROXY)/x")], {"PROXY": "http://proxy", "HTTPS_PROXY": "http://proxy/x"}),
        ([("A", "$(B)"), ("B", "b")], {"A": "$(B)", "B": "b"}),
        ([("B", "b"), ("A", "$$(B)")], {"A": "$(B)", "B": "b"}),
        ([("B", "$$"), ("A", "$(B)(C)"), ("C", "c")], {"A": "$(C)", "B": "$", "C": "c"}),
        ([("A", "pa$word $( x")], {"A": "pa$word $( x"}),
        ([("A", None), ("B", "")], {"A": "", "B": ""}),
        ([("A", "first"), ("A", "last")], {"A": "last"}),
    ],
    ids=["another's value", "one that comes later", "no reference", "a dollar of another", "plain", "empty", "twice"],
)  # fmt: skip
def test_a_program_sees_the_same(entries: list[tuple[str, Any]], seen: dict[str, str]) -> None:
    """In the order that the manifest has, and in that of the chart, for which what isn't plain is written out."""
    container = _container(*entries)
    assert seen_variables(container) == seen
    values = variables_of(container)
    assert seen_variables(_container(*sorted(values.items()))) == seen


def test_plain_values_stay_as_they_are() -> None:
    """Nothing is written otherwise than the operator did, unless it must be. A value from elsewhere is none."""
    field = {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert variables_of({"env": [{"name": "A", "value": "pa$word"}, field]}) == {"A": "pa$word"}
    assert variables_of({}) == {}


def test_a_reference_is_written_out_and_no_loss_to_an_undo() -> None:
    """The values files have its text; kubeadm's manifest, which has the reference, means the same."""
    pod = kubeadm_pod("kube-scheduler", container=_container(("PROXY", "http://proxy"), ("HTTPS_PROXY", "$(PROXY)")))
    known = kubeadm_facts(pod)
    values = base_values(known, ("10.0.0.1",), {})["kubernetes"]["scheduler"]["extraEnv"]
    assert values == {"PROXY": "http://proxy", "HTTPS_PROXY": "http://proxy"}
    spec = {"containers": [{**pod.container, **_container(*sorted(values.items()))}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kube-scheduler"},
        "spec": {"template": {"spec": spec}},
    }
    retired = [replace(each, active={}, adopted={"kube-scheduler": pod}) for each in known.controllers]
    check_undo(retired, released_in([yaml.safe_dump(deployment)]), {})


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


@pytest.mark.parametrize(
    ("flag", "given", "seen"),
    [
        ("secure-port", "$(PORT)", "7443"),
        ("etcd-servers", "https://$(ETCD):2379", "https://10.0.0.9:2379"),
        ("audit-log-path", "/var/log/$(NODE)/audit.log", "/var/log/one/audit.log"),
        ("oidc-client-id", "$(NONE)", "$(NONE)"),
        ("oidc-client-id", "$$(NODE)", "$(NODE)"),
        ("oidc-client-id", "$(HOST_IP)", "$(HOST_IP)"),
        ("oidc-username-prefix", "a$b", "a$b"),
        ("oidc-username-prefix", "$$$$", "$$"),
    ],
)
def test_a_flag_has_the_value_that_the_program_sees(helm: HelmAdapter, flag: str, given: str, seen: str) -> None:
    """The kubelet replaces variables in a command line, too: the chart's pod gives kube-apiserver the same text, even
    where the chart has a variable of that name, and an undo finds no difference.
    """
    env = _container(("PORT", "7443"), ("ETCD", "10.0.0.9"), ("NODE", "one"))
    api = kubeadm_pod("kube-apiserver", {flag: given}, volume("log", "/var/log", writable=True), container=env)
    assert api.flags[flag] == (seen,)
    known = kubeadm_facts(api)
    check_static_pods(known.controllers)
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kube-apiserver"]
    chart = charts_folder() / "kube-apiserver"
    released = released_in([helm.render(ReleaseSpec("kube-apiserver", "kube-system", chart, values), offline=True)])
    assert released["kube-apiserver"].flags[flag] == (seen,)


def test_what_only_looks_like_a_reference_stays_none() -> None:
    """The chart's pod has variables of its own, such as HOST_IP, which the kubelet would put there."""
    assert extra_args({"a": ("$(HOST_IP)",), "b": ("x$", "$$")}) == {"a": "$$(HOST_IP)", "b": ["x$", "$$$$"]}


def test_a_flag_with_a_variable_from_elsewhere_is_refused_by_the_variable() -> None:
    """Its value is known only when the pod runs."""
    env = [{"name": "PORT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['port']"}}}]
    pod = kubeadm_pod("kube-apiserver", {"secure-port": "$(PORT)"}, container={"env": env})
    with pytest.raises(Blocked, match="has the environment variable PORT with `valueFrom`") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert (
        "In the flags that refer to the variable, write its value instead, and remove the variable"
        in caught.value.remedy
    )


def test_an_own_address_from_a_variable_can_be_written_out_on_several_controllers() -> None:
    """As the remedy says: into the flag. As the value of a variable, it would differ from controller to controller."""
    own = [f"10.0.0.{number}" for number in (1, 2)]

    def known(flag: str, env: bool) -> KubeadmFacts:
        pods = [
            kubeadm_pod(
                "kube-apiserver", address=flag.format(each), container=_container(("POD_IP", each)) if env else {}
            )
            for each in own
        ]
        return facts(*({**{name: kubeadm_pod(name) for name in FLAGS}, "kube-apiserver": pod} for pod in pods))

    check_same_everywhere(known("{}", env=False))
    with pytest.raises(Blocked, match="controller-2 differs from controller-1 in its variables"):
        check_same_everywhere(known("$(POD_IP)", env=True))


def test_a_variable_may_be_a_word_of_the_command_line() -> None:
    """The kubelet replaces it as a whole: one flag, or a word that is none."""
    words = ("kube-scheduler", "$(FLAG)")
    for flag, odd in (("--v=4", False), ("-v4", True)):
        pod = kubeadm_pod("kube-scheduler", container={"command": words, **_container(("FLAG", flag))})
        if odd:
            with pytest.raises(Blocked, match="the word `-v4` among its flags"):
                check_static_pods(kubeadm_facts(pod).controllers)
        else:
            check_static_pods(kubeadm_facts(pod).controllers)
            assert pod.flags == {"v": ("4",)}
