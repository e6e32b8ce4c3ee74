"""What a lab has of another cluster, and what it can't have."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.model.cluster_copy.examples import OBJECTS, copied, of_kind, worker
from upgrader.errors import UsageError
from upgrader.lab.cluster_folder import write_values
from upgrader.lab.kubeadm_config import Secrets, init_config, join_config
from upgrader.lab.likeness import Likeness, answers_webhooks, chosen_nodes, like, objects_of
from upgrader.lab.readiness import unready
from upgrader.lab.spec import LabSpec, Placement
from upgrader.lab.webhooks import CERTIFICATE, KEY, STUB_URL, answered, stub_files

_SECRETS = Secrets("abcdef.0123456789abcdef", "00" * 32, "sha256:11")
_CONTROLLER = {"node-role.kubernetes.io/control-plane": ""}


def placement(**changes: Any) -> Placement:
    """A lab like the cluster of the examples: one controller, two workers."""
    found = copied(**changes)
    likeness, _ = like(found, chosen_nodes(found, None, None))
    return Placement(LabSpec("x", 1, 2, like=likeness.text()), 0, Path("/nowhere"))


def documents(text: str) -> dict[str, Any]:
    """kubeadm's, by their kinds."""
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_the_control_plane_has_the_clusters_flags() -> None:
    """Besides those of every lab; kubeadm's static pods have them, from which an adoption takes them over."""
    found = documents(init_config(placement(), _SECRETS, {"etcd": "1", "coredns": "1"}))["ClusterConfiguration"]
    given = {each["name"]: each["value"] for each in found["apiServer"]["extraArgs"]}
    assert given["feature-gates"] == "A=true" and given["max-requests-inflight"] == "800"
    assert given["permit-port-sharing"] == "true"
    assert found["scheduler"]["extraArgs"] == [{"name": "profiling", "value": "false"}]


def test_a_lab_of_a_version_without_webhooks_is_read() -> None:
    """Its specification doesn't say whether it has any; `lab up` still starts it."""
    found = json.loads(placement().spec.like)
    del found["webhooks"]
    likeness = Likeness.parse(json.dumps(found))
    assert likeness is not None and not likeness.webhooks and likeness.workers


def test_a_layout_keeps_the_flags_that_the_copy_does_not_have() -> None:
    """Where both have a flag, it is the copied cluster's; the layout's volumes stay."""
    like = placement().spec.like
    lab = Placement(LabSpec("x", 1, 2, layout="kubespray", like=like), 0, Path("/nowhere"))
    found = documents(init_config(lab, _SECRETS, {"etcd": "1", "coredns": "1"}))["ClusterConfiguration"]
    scheduler = [(each["name"], each["value"]) for each in found["scheduler"]["extraArgs"]]
    assert ("profiling", "false") in scheduler and ("profiling", "False") not in scheduler
    assert ("config", "/etc/kubernetes/kubescheduler-config.yaml") in scheduler and found["scheduler"]["extraVolumes"]
    server = {each["name"]: each["value"] for each in found["apiServer"]["extraArgs"]}
    assert server["feature-gates"] == "A=true" and server["audit-policy-file"] and found["apiServer"]["extraVolumes"]
    assert {each["name"] for each in found["controllerManager"]["extraArgs"]} >= {"terminated-pod-gc-threshold"}


def test_flags_that_a_layout_makes_void_are_named() -> None:
    """kube-scheduler ignores some where it has a configuration file, as with Kubespray: the lab isn't like the cluster
    there. kubeadm's layout has none.
    """
    flags = {"kube-api-qps": "100", "kube-api-burst": "200", "profiling": "false", "leader-elect-retry-period": "3s"}
    found = copied(values={"kubernetes": {"scheduler": {"extraArgs": flags}}})
    _, left_out = like(found, found.nodes, "kubespray")
    named = [line.partition(":")[0] for line in left_out if line.startswith("kube-scheduler ")]
    assert named == [f"kube-scheduler --{name}" for name in ("kube-api-burst", "kube-api-qps", "profiling")]
    assert not any("kube-scheduler" in line for line in like(found, found.nodes)[1])


def test_a_copy_without_flags_leaves_them_to_the_layout() -> None:
    """All of them are Kubespray's."""
    like = placement(values={}).spec.like
    lab = Placement(LabSpec("x", 1, 2, layout="kubespray", like=like), 0, Path("/nowhere"))
    found = documents(init_config(lab, _SECRETS, {"etcd": "1", "coredns": "1"}))["ClusterConfiguration"]
    assert {"name": "profiling", "value": "False"} in found["scheduler"]["extraArgs"]


def test_nodes_have_the_clusters_taints_from_their_first_second() -> None:
    """A controller has those of a controller, none here, and each worker those of one worker."""
    lab = placement()
    first = documents(init_config(lab, _SECRETS, {"etcd": "1", "coredns": "1"}))["InitConfiguration"]
    assert first["nodeRegistration"]["taints"] == []
    joins = [yaml.safe_load(join_config(lab, lab.node(f"worker-{number}"), _SECRETS)) for number in (1, 2)]
    taints = [join["nodeRegistration"]["taints"] for join in joins]
    assert taints == [[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}], []]
    likeness = Likeness.parse(lab.spec.like)
    assert likeness is not None and likeness.node(lab.node("worker-1")).labels == {"pool": "blue"}


def test_more_controllers_than_the_cluster_has_are_like_its_last_one() -> None:
    """With its taint: workloads stay on workers. More workers are plain ones."""
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    pool = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    nodes = (worker("cp-1", {**_CONTROLLER, "zone": "a"}, taint), worker("w-1", {}, pool))
    found = copied(nodes=nodes)
    likeness, _ = like(found, chosen_nodes(found, 3, 2))
    lab = Placement(LabSpec("x", 3, 2, like=likeness.text()), 0, Path("/nowhere"))
    taints = {
        name: yaml.safe_load(join_config(lab, lab.node(name), _SECRETS))["nodeRegistration"]["taints"]
        for name in ("controller-2", "controller-3", "worker-1", "worker-2")
    }
    assert taints == {"controller-2": [taint], "controller-3": [taint], "worker-1": [pool], "worker-2": []}


def test_the_folder_has_the_clusters_values(tmp_path: Path) -> None:
    """Beside the lab's own images; an adoption keeps what is there."""
    lab = placement()
    write_values(Placement(lab.spec, 0, tmp_path), haproxy="a/haproxy:1", coredns="a/coredns:1", checkpointer=None)
    server, rest = (
        yaml.safe_load((tmp_path / "values" / f"{name}.yaml").read_text()) for name in ("kube-apiserver", "kubernetes")
    )
    assert server["gracefulShutdown"] == {"drainSeconds": 20} and server["haproxy"]["image"]["tag"] == "1"
    assert rest["kubeProxy"] == {"maxUnavailable": "20%"} and rest["kubernetesVersion"] == "v1.36.3"


def test_a_lab_with_fewer_nodes_has_one_of_each_sort() -> None:
    """The others are named, and so are kubelets that the lab can't have."""
    same = [worker(f"w-{number}", {"pool": "blue"}) for number in range(4)]
    old = worker("w-8", {"pool": "green"})
    old["status"]["nodeInfo"]["kubeletVersion"] = "v1.35.4"
    found = copied(nodes=(worker("cp-1", _CONTROLLER), *same, old))
    nodes = chosen_nodes(found, None, 2)
    _, left_out = like(found, nodes)
    assert [node.name for node in nodes] == ["cp-1", "w-0", "w-8"]
    assert left_out == (
        *(f"Node w-{number}: the lab has fewer nodes" for number in (1, 2, 3)),
        "Node w-8: the lab's kubelets are v1.36.3, not v1.35.4",
    )


def test_more_nodes_than_a_lab_can_have_are_refused() -> None:
    """Unless fewer are asked for."""
    found = copied(nodes=[worker(f"cp-{number}", _CONTROLLER) for number in range(9)])
    with pytest.raises(
        UsageError, match="has 9 controllers, but a lab can have at most 7; nothing was created"
    ) as refused:
        chosen_nodes(found, None, None)
    assert "--controllers N" in refused.value.remedy
    assert len(chosen_nodes(found, 3, None)) == 3


def test_workloads_run_pods_that_every_pod_security_level_admits() -> None:
    """With the cluster's labels, placement and counts, and the lab's own image."""
    objects, _ = objects_of(copied(), 3)
    made = next(item for item in objects if item["kind"] == "Deployment")
    template, original = made["spec"]["template"], of_kind("Deployment")["spec"]["template"]
    assert made["spec"]["replicas"] == 4 and template["metadata"] == original["metadata"]
    assert original["spec"].items() <= template["spec"].items()
    (container,) = template["spec"]["containers"]
    assert (
        container["image"].startswith("registry.k8s.io/pause:") and template["spec"]["securityContext"]["runAsNonRoot"]
    )
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_webhooks_are_the_clusters_with_the_labs_own_server(tmp_path: Path) -> None:
    """Rules, selectors, failure policy and timeout stay; the server is each controller's own, whose certificate is
    trusted, and of which each controller has the files. It is asked for each webhook at a path of its own.
    """
    objects, left_out = objects_of(copied(), 3)
    assert [item["kind"] for item in objects] == [item["kind"] for item in OBJECTS] and left_out == ()
    assert answers_webhooks(placement()) and not answers_webhooks(Placement(LabSpec("x"), 0, tmp_path))
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        (original,) = of_kind(kind)["webhooks"]
        (webhook,) = answered(next(item for item in objects if item["kind"] == kind), "PEM")["webhooks"]
        assert original.items() <= webhook.items() and webhook.keys() - original.keys() == {"clientConfig"}
        assert webhook["clientConfig"] == {"url": f"{STUB_URL}/{kind}/shop/{original['name']}", "caBundle": "UEVN"}
    (tmp_path / CERTIFICATE).write_text("PEM")
    (tmp_path / KEY).write_text("SECRET")
    files = stub_files(tmp_path)
    assert [mode for text, mode in files.values() if "SECRET" in text] == [0o600]
    unit = files["/etc/systemd/system/lab-webhooks.service"][0]
    named = [word for word in unit.split() if word.startswith(("/usr/local", "/etc"))]
    assert len(named) == 3 and set(named) <= files.keys()


def test_a_cluster_without_webhooks_needs_no_server() -> None:
    """Nothing listens for them in the lab."""
    found = copied(objects=[item for item in OBJECTS if "Webhook" not in item["kind"]])
    likeness = like(found, found.nodes)[0]
    assert not likeness.webhooks and Likeness.parse(likeness.text()) == likeness


def test_too_many_pods_are_reduced_or_refused() -> None:
    """Three of each workload where all are too many; a budget that counts them is left out then, as it would block
    each drain.
    """
    web = copy.deepcopy(of_kind("Deployment"))
    web["spec"]["replicas"] = 400
    budget = copy.deepcopy(of_kind("PodDisruptionBudget"))
    budget["spec"] = {"minAvailable": 300, "selector": {"matchLabels": {"app": "web"}}}
    found = copied(objects=(web, budget))
    (made,), left_out = objects_of(found, 2)
    assert made["spec"]["replicas"] == 3
    assert left_out == (
        "PodDisruptionBudget shop/web: not copied, because Deployment shop/web has fewer pods",
        "Deployment shop/web: 3 replicas instead of 400",
    )
    assert objects_of(found, 8)[1] == ()
    many = [{**web, "metadata": {"namespace": "shop", "name": f"web-{number}"}} for number in range(40)]
    with pytest.raises(UsageError, match="nothing was created"):
        objects_of(copied(objects=many), 2)


def test_definitions_of_protected_groups_are_accepted_by_the_api_server() -> None:
    """It demands an annotation of them, which no copy has."""
    crd = copy.deepcopy(of_kind("CustomResourceDefinition"))
    crd["spec"]["group"] = "gateway.networking.k8s.io"
    (made,), _ = objects_of(copied(objects=(crd,)), 1)
    assert made["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("unapproved")


def test_another_copy_is_another_lab() -> None:
    """Labs are compared by their specifications, also where only an object differs."""
    one, other = placement(), placement(objects=OBJECTS[1:])
    assert one.spec == placement().spec != other.spec
    assert "--like FILE" in one.spec.switches and LabSpec("x").switches == ()
    with pytest.raises(UsageError, match="--like can't be combined"):
        LabSpec("x", hardened=True, like=one.spec.like)


def test_workloads_without_all_their_pods_are_named() -> None:
    """Also those of which the controllers have seen nothing yet."""
    meta = {"namespace": "a", "name": "b", "generation": 2}
    done = {"observedGeneration": 2, "readyReplicas": 1, "numberReady": 1, "desiredNumberScheduled": 1}
    found = [
        {"kind": "Deployment", "metadata": meta, "spec": {"replicas": 1}, "status": done},
        {"kind": "DaemonSet", "metadata": meta, "spec": {}, "status": {**done, "numberReady": 0}},
        {"kind": "StatefulSet", "metadata": meta, "spec": {"replicas": 2}, "status": done},
        {"kind": "Deployment", "metadata": {**meta, "name": "new"}, "spec": {"replicas": 0}, "status": {}},
    ]
    assert unready(found) == ["DaemonSet a/b", "StatefulSet a/b", "Deployment a/new"]
