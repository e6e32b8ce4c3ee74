"""The fleet chart: what a management cluster's operator relies on."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import chain

import pytest

from testkit.fleet_campaigns import campaign_of
from tests.charts.conftest import CHARTS, Refused, Render
from upgrader.fleet.reports.metrics import fleet_metrics

VALUES = {
    "clusters": [
        {"name": "eu-1", "egress": [{"cidr": "10.0.0.0/24"}]},
        {"name": "eu-2", "egress": [{"cidr": "10.0.1.10/32", "ports": [443]}]},
    ]
}


def test_namespace_for_each_cluster(render: Render) -> None:
    """It is restricted, and named after its cluster."""
    found = render("fleet", VALUES, "ops")
    assert found.names("Namespace") == {"fleet-eu-1", "fleet-eu-2"}
    labels = found.get("Namespace", "fleet-eu-1")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_nothing_is_taken_from_a_run(render: Render) -> None:
    """All that a cluster has stays when it is removed from the values, as a run may be in its namespace: the Job still
    connects only to its cluster, and the coordinator may still see its end.
    """
    metas = [(each["kind"], each["metadata"]) for each in render("fleet", VALUES, "ops").objects]
    mine = {kind: meta for kind, meta in metas if "fleet-eu-1" in (meta["name"], meta.get("namespace"))}
    assert sorted(mine) == ["Namespace", "NetworkPolicy", "Role", "RoleBinding"]
    for kind, meta in mine.items():
        assert (meta.get("annotations") or {}).get("helm.sh/resource-policy") == "keep", kind


def test_rights_are_only_in_those_namespaces(render: Render) -> None:
    """The coordinator, in the release's namespace, has rights in each of them; elsewhere only to read kube-system, and
    to see Jobs, as one watch for all is.
    """
    found = render("fleet", VALUES, "ops")
    roles = [each for each in found.objects if each["kind"] == "Role"]
    assert [each["metadata"]["namespace"] for each in roles] == ["fleet-eu-1", "fleet-eu-2"]
    hub, jobs = found.get("ClusterRole", "fleet-coordinator-ops")["rules"]
    assert (hub["resources"], hub["resourceNames"], hub["verbs"]) == (["namespaces"], ["kube-system"], ["get"])
    assert (jobs["apiGroups"], jobs["resources"], jobs["verbs"]) == (["batch"], ["jobs"], ["list", "watch"])
    for each in found.objects:
        if each["kind"].endswith("Binding"):
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": "fleet-coordinator", "namespace": "ops"}]
        for rule in each.get("rules", ()):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])


def test_coordinator_is_installed_if_it_has_a_folder(render: Render) -> None:
    """One pod at a time, as a plain user without any right but the ServiceAccount's, with a kubeconfig that has no
    token; it starts no campaign, and continues none whose runs would be processes of the pod.
    """
    assert not render("fleet", VALUES, "ops").names("Deployment")
    image = f"registry.example.com/upgrader-runner@sha256:{'0' * 64}"
    with pytest.raises(Refused, match=r"needs coordinator\.volume"):
        render("fleet", {"coordinator": {"image": image}})
    volume = {"persistentVolumeClaim": {"claimName": "fleet"}}
    found = render("fleet", {"coordinator": {"image": image, "volume": volume}}, "ops")
    spec = found.get("Deployment", "fleet-coordinator")["spec"]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"}) and pod["volumes"][0] == {
        "name": "fleet", **volume,
    }  # fmt: skip
    assert pod["securityContext"]["runAsNonRoot"] and pod["serviceAccountName"] == "fleet-coordinator"
    assert "fleet run --continue --executor jobs;" in pod["containers"][0]["command"][-1]
    config = found.get("ConfigMap", "fleet-coordinator")["data"]["hub.kubeconfig"]
    assert "tokenFile: /var/run/secrets" in config and "insecure" not in config


def test_credentials_of_a_webhook_are_files(render: Render) -> None:
    """A Secret is mounted that only the pod's group may read, and need not exist; by default, there is none."""
    values = {"image": f"r/i@sha256:{'0' * 64}", "volume": {"persistentVolumeClaim": {"claimName": "fleet"}}}
    without, pod = (
        render("fleet", {"coordinator": {**values, **more}}).get("Deployment", "fleet-coordinator")
        for more in ({}, {"secret": "fleet-webhook"})
    )
    assert not [each for each in without["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    spec = pod["spec"]["template"]["spec"]
    (volume,) = (each for each in spec["volumes"] if "secret" in each)
    assert volume["secret"] == {"secretName": "fleet-webhook", "defaultMode": 0o440, "optional": True}
    (mount,) = (each for each in spec["containers"][0]["volumeMounts"] if each["name"] == volume["name"])
    assert mount == {"name": "secret", "mountPath": "/etc/fleet-secrets", "readOnly": True}
    assert spec["securityContext"]["fsGroup"] == 1000, "which the files belong to"
    with pytest.raises(Refused, match="secret"):
        render("fleet", {"coordinator": {**values, "secret": "no name"}})


@pytest.mark.parametrize("name", ["2026", "1e3", "null", "true"])
def test_names_that_yaml_takes_for_other_values_stay_names(render: Render, name: str) -> None:
    """A Secret and a ServiceAccount may have them; with `null`, the pod had no Secret, or another account."""
    values = {"image": f"r/i@sha256:{'0' * 64}", "volume": {"persistentVolumeClaim": {"claimName": "fleet"}}}
    found = render("fleet", {**VALUES, "coordinator": {**values, "secret": name, "serviceAccount": name}}, "ops")
    pod = found.get("Deployment", "fleet-coordinator")["spec"]["template"]["spec"]
    (secret,) = (each["secret"] for each in pod["volumes"] if "secret" in each)
    assert (secret["secretName"], pod["serviceAccountName"]) == (name, name)
    assert [each["metadata"]["name"] for each in found.objects if each["kind"] == "ServiceAccount"] == [name]
    bound = [each["subjects"][0]["name"] for each in found.objects if each["kind"].endswith("Binding")]
    assert bound == [name] * 3


def test_jobs_reach_their_own_cluster_alone(render: Render) -> None:
    """Nothing comes in; out go its own addresses, by default to the API and SSH, and DNS, which can be left out."""
    found = render("fleet", VALUES, "ops")
    policies = {
        each["metadata"]["namespace"]: each["spec"] for each in found.objects if each["kind"] == "NetworkPolicy"
    }
    one, two = policies["fleet-eu-1"], policies["fleet-eu-2"]
    assert one["policyTypes"] == ["Ingress", "Egress"] and "ingress" not in one and one["podSelector"] == {}
    assert one["egress"][0] == {
        "to": [{"ipBlock": {"cidr": "10.0.0.0/24"}}],
        "ports": [{"protocol": "TCP", "port": 6443}, {"protocol": "TCP", "port": 22}],
    }
    assert two["egress"][0]["ports"] == [{"protocol": "TCP", "port": 443}]
    assert [each["port"] for each in one["egress"][1]["ports"]] == [53, 53] and len(one["egress"]) == 2
    without = render("fleet", {**VALUES, "networkPolicy": {"dns": []}}, "ops")
    assert all(len(each["spec"]["egress"]) == 1 for each in without.objects if each["kind"] == "NetworkPolicy")
    off = render("fleet", {**VALUES, "networkPolicy": {"enabled": False}}, "ops")
    assert not off.names("NetworkPolicy")


def test_account_of_another_release(render: Render) -> None:
    """An account that exists is bound, and not created."""
    found = render("fleet", {**VALUES, "coordinator": {"serviceAccount": "ci", "create": False}}, "ops")
    assert not found.names("ServiceAccount")
    assert found.get("RoleBinding", "fleet-coordinator")["subjects"][0]["name"] == "ci"


DASHBOARD = CHARTS / "fleet/files/dashboard.json"


def test_dashboard_shows_what_a_campaign_exports() -> None:
    """Each panel asks for series that there are, with values of labels that there are, of the fleets that were chosen;
    and no metric is left out.
    """
    families = fleet_metrics(campaign_of(20).status, "all", datetime.fromtimestamp(0, UTC))
    values = {(label, value) for each in families for sample in each.samples for label, value in sample.labels.items()}
    dashboard = json.loads(DASHBOARD.read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert {name for text in texts for name in re.findall(r"upgrader_\w+", text)} == {each.name for each in families}
    assert all(each.startswith('fleet=~"$fleet"') for text in texts for each in re.findall(r"\{(.*?)\}", text))
    asked = chain.from_iterable(re.findall(r'(\w+)=~?"([^"$]+)"', text) for text in texts)
    assert {(label, each) for label, value in asked for each in value.split("|")} <= values
    (chosen,) = (each for each in dashboard["templating"]["list"] if each["name"] == "fleet")
    assert chosen["query"] == "label_values(upgrader_fleet_state, fleet)"


def test_dashboard_is_created_if_asked_for(render: Render) -> None:
    """Grafana's sidecar finds it by its label; by default, there is none."""
    assert not render("fleet", VALUES).names("ConfigMap")
    found = render("fleet", {"dashboard": {"enabled": True}}, "ops").get("ConfigMap", "fleet-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1" and found["metadata"]["namespace"] == "ops"
    assert json.loads(found["data"]["fleet.json"]) == json.loads(DASHBOARD.read_text())


@pytest.mark.parametrize("name", ["a.b", "x" * 60])
def test_name_without_a_namespace(render: Render, name: str) -> None:
    """As `fleet run` does, the chart refuses a cluster whose name makes no namespace."""
    with pytest.raises(Refused, match=r"clusters|63 characters"):
        render("fleet", {"clusters": [{"name": name}]}, "ops")
