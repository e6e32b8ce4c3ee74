"""The pod-checkpointer chart: what an operator relies on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Refused, Render
from tests.charts.test_kube_apiserver import ONE as API_SERVER
from tests.charts.test_kubernetes import VALUES as KUBERNETES

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
    """Its role reads two Leases and four workloads by name; its container has 3 capabilities."""
    rendered = render("pod-checkpointer")
    leases, workloads = rendered.get("Role", "pod-checkpointer")["rules"]
    assert (leases["verbs"], leases["resourceNames"]) == (["get"], ["kube-controller-manager", "kube-scheduler"])
    assert (workloads["verbs"], workloads["resources"]) == (["get"], ["deployments", "daemonsets"])
    assert set(workloads["resourceNames"]) == {*leases["resourceNames"], "kube-apiserver", "pod-checkpointer"}
    assert not rendered.names("ClusterRole") and not rendered.names("ClusterRoleBinding")
    context = rendered.container(*NAME, "checkpointer")["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]}
    assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False


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
