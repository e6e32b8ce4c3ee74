"""Audit logs: which client still calls what the target removes, and which log says nothing that can be trusted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import UsageError
from upgrader.model.api_lifecycle import known_apis
from upgrader.model.audit_log import ending_apis, plural
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.audit_log import check_audit_log, check_clients
from upgrader.preflight.audit_log_files import read_audit_log, read_clients

V1_31 = KubernetesVersion.parse("v1.31.0")
V1_32 = KubernetesVersion.parse("v1.32.0")
_FLOW = {"apiGroup": "flowcontrol.apiserver.k8s.io", "apiVersion": "v1beta3", "resource": "flowschemas"}


def event(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A list of FlowSchemas of v1beta3, which v1.32 removes, by an operator of somebody's."""
    target = changes.get("objectRef", _FLOW)
    group = f"/apis/{target['apiGroup']}" if target.get("apiGroup") else "/api"
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": f"{group}/{target['apiVersion']}/{target['resource']}?limit=500",
        "verb": "list",
        "user": {"username": "system:serviceaccount:apps:operator"},
        "userAgent": "operator/1.2",
        "objectRef": _FLOW,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": f"2026-11-27T10:00:{number:02}.000000Z",
        **changes,
    }


def log(path: Path, *events: dict[str, Any] | str) -> Path:
    """A file of them, each on a line."""
    lines = (each if isinstance(each, str) else json.dumps(each) for each in events)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def found(path: Path, target: KubernetesVersion = V1_32, **more: Any) -> dict[str, Finding]:
    """The findings in a log, by id."""
    return {each.id: each for each in check_clients(read_audit_log([path]), target, **more)}


def test_each_client_of_a_removed_api_is_named(tmp_path: Path) -> None:
    """With its agent and user, what it did, how often and when, and with the API that replaces it."""
    other = {"userAgent": "kubectl/v1.28.2", "user": {"username": "jane"}, "verb": "get"}
    path = log(tmp_path / "audit.log", event(1), event(2), event(3, verb="watch"), event(4, **other))
    removed = found(path)["audit-log.removed"]
    assert removed.severity == "error"
    assert removed.title == (
        "2 clients of flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema, which v1.32.0 doesn't serve"
    )
    operator = "operator/1.2 (user system:serviceaccount:apps:operator): list, watch"
    assert f"{operator} (3 requests, the last at 2026-11-27T10:00:03Z)" in removed.diagnosis
    assert "kubectl/v1.28.2 (user jane): get (1 request, at 2026-11-27T10:00:04Z)" in removed.diagnosis
    assert "flowcontrol.apiserver.k8s.io/v1 FlowSchema" in removed.remedy


def test_target_that_serves_it_still(tmp_path: Path) -> None:
    """It is deprecated there, which is told and blocks nothing."""
    findings = found(log(tmp_path / "audit.log", event()), V1_31)
    assert {each.id: each.severity for each in findings.values()} == {
        "audit-log.deprecated": "info",
        "audit-log.read": "info",
    }
    assert "operator/1.2" in findings["audit-log.deprecated"].diagnosis


def test_what_breaks_no_client(tmp_path: Path) -> None:
    """Kubernetes' own components, requests for a path that isn't served, those that were refused or have only been
    received, custom and current APIs, and an API that the present version doesn't serve either."""
    path = log(
        tmp_path / "audit.log",
        event(1, **component("kube-controller-manager", "system:serviceaccount:kube-system:namespace-controller")),
        event(2, responseStatus={"code": 404}),
        event(6, responseStatus={"code": 403}, user={"username": "system:anonymous"}),
        event(7, responseStatus={"code": 401}, user={}),
        event(8, **component("kubelet", "system:node:worker-1")),
        event(9, **component("k3s", "system:apiserver")),
        event(3, stage="RequestReceived"),
        event(4, objectRef={"apiGroup": "example.com", "apiVersion": "v1beta3", "resource": "flowschemas"}),
        event(5, objectRef={"apiGroup": "apps", "apiVersion": "v1", "resource": "deployments"}),
    )
    assert set(found(path)) == {"audit-log.read"}
    assert set(found(log(path, event()), current=V1_32)) == {"audit-log.read"}


def component(program: str, user: str) -> dict[str, Any]:
    """What a component of Kubernetes calls itself."""
    return {"userAgent": f"{program}/v1.31.0 (linux/amd64) kubernetes/9edcffc", "user": {"username": user}}


@pytest.mark.parametrize(
    "other",
    [
        component("kube-scheduler", "system:serviceaccount:kube-system:my-scheduler"),
        component("kubelet", "system:anonymous"),
        {"responseStatus": {"code": 404, "reason": "NotFound"}},
        {"stage": "Panic", "responseStatus": {}},
        {"stage": "ResponseStarted", "verb": "watch"},
    ],
)
def test_whom_the_run_breaks_all_the_same(tmp_path: Path, other: dict[str, Any]) -> None:
    """Who only calls itself a component, or is a second one of its kind; a missing object; a request that failed; a
    watch that goes on."""
    assert "audit-log.removed" in found(log(tmp_path / "audit.log", event(1, **other)))


def test_strangers_do_not_hide_a_client(tmp_path: Path) -> None:
    """Ten clients are shown: those with the most requests."""
    others = [event(number, user={"username": f"a{number}"}) for number in range(10, 30)]
    path = log(tmp_path / "audit.log", *others, event(1), event(2))
    assert found(path)["audit-log.removed"].diagnosis.startswith("operator/1.2 (user system:serviceaccount:apps:oper")


def test_names_are_one_short_line(tmp_path: Path) -> None:
    """A client chooses them: none of them makes lines of its own, or commands of the CI job that shows the report."""
    strange = {"user": {"username": "a)\n ::error::b" + "u" * 9000}, "userAgent": "x\n##[group]" + "y" * 9000}
    (line, *_) = found(log(tmp_path / "audit.log", event(1, **strange)))["audit-log.removed"].diagnosis.splitlines()
    assert line.endswith("(1 request, at 2026-11-27T10:00:01Z)") and len(line) < 300
    assert "::" not in line.partition(" (1 request")[0] and "##[" not in line


def test_impersonation_names_both(tmp_path: Path) -> None:
    """A portal's requests are those of its users."""
    path = log(tmp_path / "audit.log", event(user={"username": "rancher"}, impersonatedUser={"username": "jane"}))
    assert "(user rancher, as jane)" in found(path)["audit-log.removed"].diagnosis


def test_log_without_answers_is_unknown(tmp_path: Path) -> None:
    """An audit policy that omits the answers, or all but those to watches, and a file without any event, say nothing of
    clients.
    """
    pods = {"apiVersion": "v1", "resource": "pods"}
    begun = event(stage="ResponseStarted", verb="watch", objectRef=pods, requestURI="/api/v1/pods?watch=1")
    received = event(stage="RequestReceived")
    for path in (log(tmp_path / "received", received), log(tmp_path / "begun", begun), log(tmp_path / "empty")):
        assert {each.id: each.severity for each in found(path).values()} == {"audit-log.empty": "unknown"}


def test_escaped_slashes(tmp_path: Path) -> None:
    """Some programs that copy logs write them."""
    text = json.dumps(event()).replace("/", "\\/").replace("audit.k8s.io\\/v1", "audit.k8s.io/v1")
    assert "audit-log.removed" in found(log(tmp_path / "audit.log", text))


def test_deep_nesting_is_damage(tmp_path: Path) -> None:
    """Anybody who may create a custom object writes such a body into a log of level Request."""
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    text = json.dumps(event(2))[:-1] + f', "requestObject": {deep}}}'
    assert read_audit_log([log(tmp_path / "audit.log", event(1), text)]).damaged_lines == 1


def test_bodies_tell_nothing_of_nodes(tmp_path: Path) -> None:
    """A tenant's object could have a kubelet's name in it."""
    body = {"requestObject": {"username": "system:node:evil"}}
    assert read_audit_log([log(tmp_path / "audit.log", event(1, **body))]).nodes == frozenset()


def test_a_request_counts_once(tmp_path: Path) -> None:
    """A watch has an event when it is answered, and one when it ends."""
    path = log(tmp_path / "audit.log", event(1, stage="ResponseStarted"), event(1))
    assert [each.count for each in read_audit_log([path]).requests] == [1]


def test_files_of_a_folder(tmp_path: Path) -> None:
    """Rotated and packed ones, too; the time is that from the first to the last request of all."""
    log(tmp_path / "audit-2026-11-26.log", event(5), event(9))
    packed = json.dumps(event(2)).encode() + b"\n"
    (tmp_path / "audit-2026-11-25.log.gz").write_bytes(gzip.compress(packed))
    read = read_audit_log([tmp_path])
    assert (read.events, [each.count for each in read.requests]) == (3, [3])
    assert (read.first, read.last) == ("2026-11-27T10:00:02.000000Z", "2026-11-27T10:00:09.000000Z")


def test_events_of_a_webhook(tmp_path: Path) -> None:
    """A backend that writes what the API server posts to it has lists of events."""
    events = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event(1), event(2)]}
    assert [each.count for each in read_audit_log([log(tmp_path / "audit.log", events)]).requests] == [2]


def test_damaged_lines_are_unknown(tmp_path: Path) -> None:
    """A torn line in the middle has requests that nobody knows; it is named by file and line."""
    path = log(tmp_path / "audit.log", event(1), json.dumps(event(2))[:90], json.dumps(event(3))[40:], event(4))
    damaged = found(path)["audit-log.damaged"]
    assert damaged.severity == "unknown"
    assert damaged.title == "lines of the audit log that can't be read as events: 2"
    assert f"{path}:2, {path}:3" in damaged.diagnosis


def test_line_that_is_being_written(tmp_path: Path) -> None:
    """The last line of a log in use may be half a line: that is no damage."""
    path = log(tmp_path / "audit.log", event(1))
    path.write_text(path.read_text() + json.dumps(event(2))[:90])
    assert read_audit_log([path]).damaged_lines == 0


@pytest.mark.parametrize(
    "content",
    [
        "2026-11-27T10:00:00Z AUDIT: id=1\n",
        '{"some": "json"}\n',
        "not json\n" * 3,
        json.dumps({"@timestamp": "x", "audit": event()}) + "\n",
    ],
)
def test_file_that_is_no_audit_log(tmp_path: Path, content: str) -> None:
    """It is refused, with the flags of kube-apiserver that tell which file and format."""
    (tmp_path / "audit.log").write_text(content)
    with pytest.raises(UsageError, match=r"audit\.log:1: not an event of an audit log") as error:
        read_audit_log([tmp_path / "audit.log"])
    assert "--audit-log-path" in error.value.remedy


def test_what_can_not_be_read(tmp_path: Path) -> None:
    """An empty folder, and a packed file that ends too early."""
    with pytest.raises(UsageError, match="the folder contains no files"):
        read_audit_log([tmp_path])
    packed = gzip.compress(json.dumps(event()).encode() * 9)
    for broken in (packed[:20], packed[:12] + b"\xff" + packed[13:], b"plain"):
        (tmp_path / "audit.log.gz").write_bytes(broken)
        with pytest.raises(UsageError, match=r"audit\.log\.gz|" + str(tmp_path)):
            read_audit_log([tmp_path])


def test_log_of_another_cluster(world: World, tmp_path: Path) -> None:
    """Its kubelets are those of nodes that this cluster doesn't have."""
    kubelet = {"user": {"username": "system:node:elsewhere-1"}, "userAgent": "kubelet/v1.35.0"}
    read = read_audit_log([log(tmp_path / "audit.log", event(1, **kubelet))])
    assert read.nodes == {"elsewhere-1"}
    world.node()
    world.audit_log = read
    findings = world.find(check_audit_log)
    assert findings["audit-log.other-cluster"].severity == "error"
    assert "elsewhere-1" in findings["audit-log.other-cluster"].diagnosis


def test_no_log(world: World) -> None:
    """A check that was given none finds nothing."""
    assert world.find(check_audit_log) == {}


def test_resources_are_those_of_kubernetes() -> None:
    """The plural of each kind, as the API has it; those that end in another way than by -s are the risk."""
    irregular = {
        "Endpoints": "endpoints",
        "Ingress": "ingresses",
        "IngressClass": "ingressclasses",
        "NetworkPolicy": "networkpolicies",
        "PodSecurityPolicy": "podsecuritypolicies",
        "CSIStorageCapacity": "csistoragecapacities",
        "ResourceClaimParameters": "resourceclaimparameters",
        "ServiceCIDR": "servicecidrs",
    }
    assert {kind: plural(kind) for kind in irregular} == irregular
    assert ("policy/v1beta1", "podsecuritypolicies") in ending_apis()
    assert len(ending_apis()) <= len(known_apis())


def test_who_a_client_acts_as_is_known(tmp_path: Path) -> None:
    """With the groups and namespaces that decide what it may do: those of the user whom it impersonates."""
    target = {"apiVersion": "v1", "resource": "pods", "subresource": "exec"}
    jane = {"username": "jane", "groups": ["people"]}
    robot = {"username": "robot", "groups": ["robots"]}
    sent = [
        event(number, verb="get", objectRef={**target, "namespace": f"shop-{number % 7}"}, user=robot)
        for number in range(50)
    ]
    sent.append(event(51, verb="get", objectRef={**target, "namespace": "shop"}, user=robot, impersonatedUser=jane))
    own, acting = read_clients([log(tmp_path / "audit.log", *sent)]).requests
    assert (own.acting, own.groups, len(own.namespaces)) == ("robot", ("robots",), 5)
    assert (acting.acting, acting.groups, acting.namespaces) == ("jane", ("people",), ("shop",))
