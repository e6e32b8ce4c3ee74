"""The pod-checkpointer chart: what an operator relies on."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CHARTS, Refused, Render
from tests.charts.test_kube_apiserver import ONE as API_SERVER
from tests.charts.test_kubernetes import VALUES as KUBERNETES
from upgrader.in_cluster.checkpointer.observation.pull_records import FOLDER

NAME = ("DaemonSet", "pod-checkpointer")


def test_on_every_controller_and_nowhere_else(render: Render) -> None:
    """It runs on every controller, whatever its taints."""
    pod = render("pod-checkpointer").pod(*NAME)["spec"]
    assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
    assert pod["tolerations"] == [{"operator": "Exists"}]


def test_helm_can_judge_it(render: Render) -> None:
    """It has a readiness probe, so that Helm waits until every pod with the annotation has a checkpoint."""
    container = render("pod-checkpointer").container(*NAME, "checkpointer")
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 10280}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 10280}


def test_it_can_be_its_own_checkpoint(render: Render) -> None:
    """The pod has no token and no API object, so that it can run as a static pod."""
    pod = render("pod-checkpointer").pod(*NAME)
    assert pod["metadata"]["annotations"]["checkpointer.upgrader.io/checkpoint"] == "true"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert all("hostPath" in volume for volume in pod["spec"]["volumes"])


def test_least_privilege(render: Render) -> None:
    """Its roles read two Leases, four workloads and one EndpointSlice by name; its container has 3 capabilities."""
    rendered = render("pod-checkpointer")
    leases, workloads = rendered.get("Role", "pod-checkpointer")["rules"]
    assert (leases["verbs"], leases["resourceNames"]) == (["get"], ["kube-controller-manager", "kube-scheduler"])
    assert (workloads["verbs"], workloads["resources"]) == (["get"], ["deployments", "daemonsets", "statefulsets"])
    assert set(workloads["resourceNames"]) == {*leases["resourceNames"], "kube-apiserver", "pod-checkpointer"}
    (servers,) = rendered.get("Role", "pod-checkpointer-api-servers")["rules"]
    assert (servers["verbs"], servers["resources"]) == (["get"], ["endpointslices"])
    assert servers["resourceNames"] == ["kubernetes"]
    assert not rendered.names("ClusterRole") and not rendered.names("ClusterRoleBinding")
    context = rendered.container(*NAME, "checkpointer")["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False


def documents(render: Render, values: dict[str, Any], name: str = "pod-checkpointer") -> dict[str, Any]:
    """The roles of that name by namespace."""
    found = render("pod-checkpointer", values).objects
    return {
        d["metadata"]["namespace"]: d["rules"] for d in found if d["kind"] == "Role" and d["metadata"]["name"] == name
    }


def test_only_kube_system_unless_others_are_named(render: Render) -> None:
    """By default pods of kube-system alone may have a checkpoint; each further namespace and workload is named, and
    the kubelets may read what they need of these only.
    """
    default = render("pod-checkpointer").flags(*NAME, "checkpointer")
    assert default["namespace"] == ["kube-system"] and "workload" not in default
    assert set(documents(render, {})) == {"kube-system"}
    more = {"namespaces": ["kube-system", "storage"], "workloads": ["storage/agent"]}
    flags = render("pod-checkpointer", more).flags(*NAME, "checkpointer")
    assert (flags["namespace"], flags["workload"]) == (["kube-system", "storage"], ["storage/agent"])
    assert documents(render, more)["storage"][1]["resourceNames"] == ["agent"]
    every = documents(render, {"namespaces": ["storage"]})
    assert set(every) == {"kube-system", "storage"} and "resourceNames" not in every["storage"][1]
    with pytest.raises(Refused, match="schema"):
        render("pod-checkpointer", {"workloads": ["agent"]})


def test_it_reads_which_images_a_static_pod_can_use(render: Render) -> None:
    """The kubelet's records are mounted, and followed unless no kubelet verifies credentials of images."""
    rendered = render("pod-checkpointer", {"verifyImageCredentials": False})
    (mount,) = (m for m in rendered.container(*NAME, "checkpointer")["volumeMounts"] if m["name"] == "pull-records")
    assert (mount["mountPath"], mount["readOnly"]) == (str(FOLDER.parent), True)
    assert "--any-image" in rendered.container(*NAME, "checkpointer")["args"]
    assert "--any-image" not in render("pod-checkpointer").container(*NAME, "checkpointer")["args"]


@pytest.mark.parametrize(
    ("chart", "workload", "values"),
    [
        ("pod-checkpointer", NAME, {}),
        ("kube-apiserver", ("Deployment", "kube-apiserver"), API_SERVER),
        ("kubernetes", ("Deployment", "kube-scheduler"), KUBERNETES),
        ("kubernetes", ("Deployment", "kube-controller-manager"), KUBERNETES),
    ],
)
def test_a_revision_is_noted_without_replacing_pods(
    render: Render, chart: str, workload: tuple[str, str], values: dict[str, Any]
) -> None:
    """Checkpointed workloads carry their Helm revision, but not in the pod template."""
    found = render(chart, values).get(*workload)
    assert found["metadata"]["annotations"]["checkpointer.upgrader.io/helm-revision"] == "1"
    notes = found["spec"]["template"]["metadata"].get("annotations") or {}
    assert "checkpointer.upgrader.io/helm-revision" not in notes


def test_files_that_are_renamed_share_a_mount(render: Render) -> None:
    """/etc/kubernetes is one mount, as a rename can't cross mounts."""
    mounts = {m["mountPath"]: m for m in render("pod-checkpointer").container(*NAME, "checkpointer")["volumeMounts"]}
    assert not mounts["/etc/kubernetes"].get("readOnly")
    assert not any(path.startswith("/etc/kubernetes/") for path in mounts)


def test_ports_agree(render: Render) -> None:
    """One value sets the argument, the declared port and the probes."""
    container = render("pod-checkpointer", {"port": 11280}).container(*NAME, "checkpointer")
    assert "--port=11280" in container["args"]
    assert container["ports"][0]["hostPort"] == 11280
    assert container["readinessProbe"]["httpGet"]["port"] == 11280


def test_unknown_values_are_refused(render: Render) -> None:
    """The schema refuses mistakes."""
    with pytest.raises(Refused, match="schema"):
        render("pod-checkpointer", {"gracePeriod": 5})


@pytest.mark.parametrize(
    ("values", "port"), [({}, "10281"), ({"standbyPort": 11281}, "11281"), ({"copyPort": 11281}, "11281")]
)
def test_the_former_name_of_a_value_is_accepted(render: Render, values: dict[str, int], port: str) -> None:
    """Values that name the standby pod's port as earlier versions did keep their meaning."""
    assert render("pod-checkpointer", values).flags(*NAME, "checkpointer")["standby-port"] == [port]


def test_image_has_no_default_that_is_not_ours(render: Render) -> None:
    """Without a name of the operator's own the chart is refused, with what to do: it never pulls a stranger's image."""
    with pytest.raises(Refused, match="no image of the pod-checkpointer is published"):
        render("pod-checkpointer", {"image": {"tag": "0.1.0"}})


def test_no_default_image_moves() -> None:
    """The tag of an image that a chart names by itself is a whole version: a release always pulls the same."""
    values = yaml.safe_load((CHARTS / "kube-apiserver" / "values.yaml").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+(-\w+)?", values["haproxy"]["image"]["tag"])


@pytest.mark.parametrize(
    ("chart", "values"), [("kube-apiserver", API_SERVER), ("kubernetes", KUBERNETES), ("pod-checkpointer", {})]
)
def test_no_port_of_a_node_needs_a_network_plugin(render: Render, chart: str, values: dict[str, Any]) -> None:
    """A pod in the node's network has the port itself. In another, it would need kube-proxy's rules or a plugin for
    host ports, which clusters with another service proxy lack.
    """
    workloads = [each for each in render(chart, values).objects if each["kind"] in ("DaemonSet", "Deployment")]
    assert workloads
    for pod in (each["spec"]["template"]["spec"] for each in workloads):
        ports = [port for container in pod["containers"] for port in container.get("ports", ()) if "hostPort" in port]
        assert not ports or pod.get("hostNetwork"), pod
        assert all(port["hostPort"] == port["containerPort"] for port in ports)
