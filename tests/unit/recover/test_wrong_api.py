"""What speaks against an API server that answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.recover.controllers import NOW, controller, generation
from upgrader.errors import ApiError
from upgrader.model.cluster import Cluster, Host
from upgrader.onhost.common.tls import UNVERIFIED
from upgrader.onhost.sending.host_facts import (
    Client,
    Container,
    Endpoint,
    EtcdServer,
    Examined,
    HostFacts,
    Unit,
    Unknown,
)
from upgrader.recover.diagnosis import examiner
from upgrader.recover.diagnosis.diagnose import diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen, refused_clients, wrong_finding
from upgrader.recover.restoring.api_recovery import ApiRecovery
from upgrader.recover.restoring.next_actions import Attempts, StartStandby, next_actions

POD = "the token of kube-system/coredns-1"
OTHER_POD = "the token of kube-system/kube-proxy-1"
FINE = ApiSeen(True, "ok")
HOST = Host("controller-1", "10.0.0.1")


def facts(*clients: tuple[str, int], expired: tuple[str, ...] = ()) -> HostFacts:
    """A controller whose clients got these answers; those in `expired` have a certificate that ended."""
    found = controller(serves=True).facts
    assert found is not None
    made = [
        Client(name, status)
        if name.startswith("the token")
        else Client(name, status, NOW - 100, NOW - 10 if name in expired else NOW + 100)
        for name, status in clients
    ]
    return replace(found, clients=tuple(made))


@pytest.mark.parametrize(
    ("clients", "refused"),
    [
        ([("kubelet", 200), (POD, 200)], []),
        ([("kubelet", 401), ("kube-scheduler", 401)], ["kubelet", "kube-scheduler"]),
        ([("kubelet", 403), ("kube-scheduler", 401)], ["kubelet", "kube-scheduler"]),
        ([("kubelet", 401), ("kube-scheduler", 200)], []),
        ([("kubelet", 200), ("kube-scheduler", 403)], []),  # its own rights may have been taken
        ([("kubelet", 401)], []),  # nobody agrees
        ([(POD, 401), (OTHER_POD, 200)], []),  # that pod may have been deleted
        ([(POD, 401)], []),
        ([("kubelet", 200), (POD, 401), (OTHER_POD, 401)], [POD, OTHER_POD]),
        ([(POD, 403), (OTHER_POD, 403)], []),  # system:discovery may be withheld on purpose
    ],
)
def test_refused_clients_are_those_without_a_fault_of_their_own(
    clients: list[tuple[str, int]], refused: list[str]
) -> None:
    """Two clients of a kind must agree; what a single one is refused may be its own fault."""
    assert [client.name for client in refused_clients(facts(*clients))] == refused


def test_expired_certificates_prove_nothing() -> None:
    """What ended is refused rightly; what is left has to agree all the same."""
    clients = (("kubelet", 401), ("kube-scheduler", 401), ("kube-controller-manager", 401))
    assert refused_clients(facts(*clients, expired=("kube-scheduler", "kube-controller-manager"))) == ()
    assert refused_clients(facts(*clients, expired=("kubelet", "kube-scheduler", "kube-controller-manager"))) == ()
    assert len(refused_clients(facts(*clients, expired=("kubelet",)))) == 2


def test_what_no_right_server_refuses_is_conclusive() -> None:
    """A server that accepts everybody, and lacks `apps/v1` or forbids every write, is wrong without a second client."""
    lacks = Client("kubelet's GET /apis/apps/v1", 404, NOW - 100, NOW + 100, conclusive=True)
    everybody = facts(("kubelet", 200), ("kube-scheduler", 200)).clients
    assert isinstance(everybody, tuple)
    seen = replace(facts(), clients=(*everybody, lacks))
    assert refused_clients(seen) == (lacks,)
    found = diagnose([Examined(HOST, seen)], FINE)
    assert found.wrong.endswith("on controller-1 it rejects kubelet's GET /apis/apps/v1 (HTTP 404)")


def test_each_instance_is_judged_by_itself() -> None:
    """Where a right and a wrong instance answer side by side, the wrong one is found, and which pod it is."""
    right, wrong = (facts(("kubelet", status), ("kube-scheduler", status)).clients for status in (200, 401))
    assert isinstance(right, tuple) and isinstance(wrong, tuple)
    old = tuple(replace(client, pod="u-old", address="127.1.1.1:6443") for client in right)
    new = tuple(replace(client, pod="u-new", address="127.2.2.2:6443") for client in wrong)
    seen = replace(facts(), clients=(*old, *new))
    assert {client.pod for client in refused_clients(seen)} == {"u-new"}
    (found,) = diagnose([Examined(HOST, seen)], FINE).controllers
    assert (found.wrong, found.wrong_pods, found.right_pods) == (True, frozenset({"u-new"}), frozenset({"u-old"}))
    one = replace(facts(), clients=(*old, new[0]))
    assert refused_clients(one) == (), "nobody agrees with it about its instance"
    unnamed = tuple(replace(client, pod="") for client in (*old, *new))
    (found,) = diagnose([Examined(HOST, replace(facts(), clients=unnamed))], FINE).controllers
    assert (found.wrong, found.wrong_pods, found.right_pods) == (True, frozenset(), frozenset())


def test_two_instances_that_refuse_the_same_are_one_sentence() -> None:
    """Each client is named once."""
    clients = tuple(Client("kubelet", 401, pod=pod) for pod in ("u-1", "u-2"))
    found = wrong_finding(FINE, {"controller-1": clients})
    assert found is not None and found.title.endswith("on controller-1 it rejects kubelet (HTTP 401)")


def test_one_component_is_enough_beside_the_operator() -> None:
    """Where the operator's credentials are refused as well, a single valid certificate agrees with them."""
    found = refused_clients(facts(("kubelet", 401)), credentials=True)
    assert [client.name for client in found] == ["kubelet"]
    assert refused_clients(facts(("kubelet", 401), expired=("kubelet",)), credentials=True) == ()


def test_what_was_not_asked_is_no_evidence() -> None:
    """Unknown is no reason to replace an API server."""
    assert refused_clients(replace(facts(), clients=Unknown("no answer within 9 s"))) == ()
    assert wrong_finding(FINE, {}) is None


def test_finding_names_the_evidence() -> None:
    """The title names who is refused where; what the API refused from here is added."""
    seen = ApiSeen(True, "ok", "HTTP 401 Unauthorized", credentials=True)
    found = wrong_finding(seen, {"controller-1": (Client("kubelet", 401),)})
    assert found is not None
    assert (found.id, found.severity) == ("apiserver.wrong", "error")
    assert "on controller-1 it rejects kubelet (HTTP 401)" in found.title
    assert found.diagnosis == "HTTP 401 Unauthorized"


def test_refused_credentials_alone_are_the_operators_matter() -> None:
    """Where the cluster's own clients are accepted, nothing is replaced: the kubeconfig's credentials are at fault."""
    examined = [Examined(HOST, facts(("kubelet", 200)))]
    seen = diagnose(examined, ApiSeen(True, "ok", "HTTP 401 Unauthorized", credentials=True))
    assert (seen.wrong, seen.serves, seen.healthy) == ("", False, False)
    assert "HTTP 401" in seen.blocked
    assert [finding.id for finding in seen.findings] == ["api.credentials"]
    assert seen.blames_credentials


@pytest.mark.parametrize(
    ("controller", "api"),
    [
        (facts(("kubelet", 401)), ApiSeen(True, "ok", "HTTP 401", credentials=True)),  # it refuses the cluster, too
        (facts(("kubelet", 200)), ApiSeen(True, "ok", "apps/v1: HTTP 404")),
        (facts(("kubelet", 200)), ApiSeen(answers=False, answer="connection refused")),
        (facts(("kubelet", 200)), FINE),
    ],
    ids=["cluster-refused", "something-else", "no-answer", "accepted"],
)
def test_credentials_are_not_blamed_for_what_has_other_causes(controller: HostFacts, api: ApiSeen) -> None:
    """A run that stops for its credentials leaves the API as it is, so nothing else may be wrong with it."""
    assert not diagnose([Examined(HOST, controller)], api).blames_credentials


@pytest.mark.parametrize("later_wrong", [False, True])
def test_several_examinations_must_blame_the_credentials(*, later_wrong: bool) -> None:
    """An instance that is wrong may only be starting while the first examination is made."""
    refused = ApiSeen(True, "ok", "HTTP 401", credentials=True)
    first = diagnose([Examined(HOST, facts(("kubelet", 200)))], refused)
    second = diagnose([Examined(HOST, facts(("kubelet", 401)))], refused)
    seen = iter([first, second if later_wrong else first, first])
    found = ApiRecovery(
        lambda: next(seen), machines=lambda: first, hosts=FakeHosts(), kube=FakeKube(), clock=FakeClock()
    )
    assert found.blames_credentials() is not later_wrong


REFUSED = ApiSeen(True, "HTTP 401", refuses="HTTP 401", credentials=True)


@pytest.mark.parametrize(
    "clients",
    [
        None,  # not asked, or no answer within the time
        (),
        (("kubelet", 500),),
        (("kubelet", 200), (POD, 401)),  # the only token: signed with another key, or of a pod that is gone
        ((POD, 401), (OTHER_POD, 401)),
    ],
    ids=["unknown", "none", "no-status-of-theirs", "one-token-refused", "tokens-refused"],
)
def test_credentials_are_blamed_only_where_the_cluster_itself_is_known_to_be_accepted(
    clients: tuple[tuple[str, int], ...] | None,
) -> None:
    """A 401 may as well be of a proxy before an API server that is down, or of one that accepts no one's login."""
    seen = facts(*clients or ())
    if clients is None:
        seen = replace(seen, clients=Unknown("no answer within 9 s"))
    assert not diagnose([Examined(HOST, seen)], REFUSED).blames_credentials


def test_credentials_are_not_blamed_where_a_controller_can_not_be_examined() -> None:
    """Its API server may be the one that refuses everyone."""
    away = Examined(Host("controller-2", "10.0.0.2"), None, "no route to host")
    assert not diagnose([Examined(HOST, facts(("kubelet", 200))), away], REFUSED).blames_credentials
    assert not diagnose([away], REFUSED).blames_credentials
    assert not diagnose([], REFUSED).blames_credentials


def test_credentials_are_not_blamed_where_another_fault_hides_who_is_refused() -> None:
    """Where a controller's etcd has failed, too, its API server isn't replaced for what it refuses; it refuses yet."""
    store = replace(facts().etcd, server=EtcdServer(False))
    ill = replace(facts(("kubelet", 401), ("kube-scheduler", 401)), etcd=store)
    seen = diagnose([Examined(HOST, ill)], REFUSED)
    assert not seen.wrong, "etcd explains it"
    assert not seen.blames_credentials


def test_credentials_are_not_blamed_by_one_of_two_instances() -> None:
    """While an instance is replaced by another, the new one may be the one that refuses them."""
    clients = (
        Client("kubelet", 200, NOW - 100, NOW + 100, address="10.0.0.1:6443"),
        Client("kubelet", 401, NOW - 100, NOW - 10, address="10.0.0.1:6444"),
        Client("kube-scheduler", 401, NOW - 100, NOW - 10, address="10.0.0.1:6444"),
    )
    assert not diagnose([Examined(HOST, replace(facts(), clients=clients))], REFUSED).blames_credentials


DOWN = replace(facts(), api=Endpoint(False, "nothing listens on port 6443"), clients=())
REJECTING = replace(facts(("kubelet", 401)), api=Endpoint(False, "HTTP 401", address="10.0.0.1:6443"))

UNTRUSTED = Endpoint(
    False,
    f"10.0.0.2:6443: {UNVERIFIED}Hostname mismatch, certificate is not valid for 'kubernetes.default.svc'.",
    address="10.0.0.2:6443",
)
"""Its certificate is for the load balancer's name alone, or of another CA: it works for who trusts that."""


def test_an_answer_where_no_api_server_runs_is_of_something_between() -> None:
    """A proxy that asks the API server for each login answers 401 for one that is down: it is restored as ever."""
    seen = diagnose([Examined(HOST, DOWN)], REFUSED)
    assert (seen.api.answers, seen.api.refuses, seen.api.answer) == (False, "", "HTTP 401")
    assert seen.blocked == "" and not seen.blames_credentials
    (action,) = next_actions(seen.controllers, Attempts(), 0.0, api_answers=seen.api.answers)
    assert isinstance(action, StartStandby)


@pytest.mark.parametrize(
    "others",
    [
        [Examined(Host("controller-2", "10.0.0.2"), facts(("kubelet", 200)))],
        [Examined(Host("controller-2", "10.0.0.2"), None, "no route to host")],
        [Examined(Host("controller-2", "10.0.0.2"), replace(DOWN, api=Unknown("no answer within 9 s")))],
        [Examined(Host("controller-2", "10.0.0.2"), REJECTING)],
        [Examined(Host("controller-2", "10.0.0.2"), replace(DOWN, clients=(Client("kubelet", 401),)))],
        [Examined(Host("controller-2", "10.0.0.2"), replace(DOWN, api=Endpoint(False, "HTTP 500: not ready: etcd")))],
        [Examined(Host("controller-2", "10.0.0.2"), replace(DOWN, api=UNTRUSTED, clients=Unknown("not asked")))],
    ],
    ids=["serves", "not-examined", "unknown", "refuses-all", "refuses-a-client", "not-ready", "unverified"],
)
def test_an_answer_may_be_of_any_instance_that_answers_or_is_unknown(others: list[Examined]) -> None:
    """Then nothing is started beside it for that alone."""
    assert diagnose([Examined(HOST, DOWN), *others], REFUSED).api.answers


def test_an_answer_may_be_of_a_controller_that_was_not_to_be_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """`recover` of some controllers alone doesn't know what the others do."""
    kube = FakeKube()
    error = ApiError("HTTP 401 Unauthorized")
    error.status = 401
    kube.raw_answers["/readyz"] = error
    everyone = _examiner(monkeypatch, kube, DOWN)
    assert not everyone().api.answers
    assert replace(everyone, only=("controller-1",))().api.answers


def test_credentials_are_blamed_where_every_controller_accepts_the_cluster() -> None:
    """A token that may not read what is asked is accepted; a certificate that has expired says nothing."""
    clients = (("kubelet", 200), ("kube-scheduler", 401), (POD, 403), (OTHER_POD, 200))
    seen = facts(*clients, expired=("kube-scheduler",))
    others = Examined(Host("controller-2", "10.0.0.2"), seen)
    assert diagnose([Examined(HOST, seen), others], REFUSED).blames_credentials


def test_api_that_lacks_what_helm_needs_is_wrong() -> None:
    """A group that isn't served is a fault of the API server, whoever asks, and on every controller."""
    seen = diagnose([Examined(HOST, facts())], ApiSeen(True, "ok", "apps/v1: HTTP 404"))
    assert "apps/v1: HTTP 404" in seen.wrong
    assert (seen.serves, seen.blocked, seen.controllers[0].wrong) == (False, "", True)


def test_only_the_controller_with_the_evidence_is_wrong() -> None:
    """What one controller's clients are refused says nothing of the others' instances."""
    other = Host("controller-2", "10.0.0.2")
    refused = facts(("kubelet", 401), ("kube-scheduler", 401))
    seen = diagnose([Examined(HOST, facts(("kubelet", 200))), Examined(other, refused)], FINE)
    assert [item.wrong for item in seen.controllers] == [False, True]


def test_what_is_seen_from_outside_is_the_newest_templates() -> None:
    """Of three controllers, a rollout has reached one: the others' instances served before, and serve."""
    examined = []
    for number, template, created in ((1, "t-old", NOW - 9e6), (2, "t-old", NOW - 8e6), (3, "t-new", NOW - 60.0)):
        name = f"controller-{number}"
        own = Container(
            f"kube-apiserver-{number}",
            "kube-system",
            "kube-apiserver",
            "running",
            uid=f"u-{number}",
            template=template,
            created=created,
        )
        seen = controller(name, serves=True, containers=(own,))
        examined.append(Examined(seen.host, seen.facts))
    seen_api = ApiSeen(True, "ok", refuses="apps/v1: HTTP 404")
    assert [item.wrong for item in diagnose(examined, seen_api).controllers] == [False, False, True]
    assert [item.wrong for item in diagnose(examined[:2], seen_api).controllers] == [True, True]


def test_container_that_was_restarted_makes_no_pod_younger() -> None:
    """A right instance whose liveness probe ended it a moment ago is not what the change has made."""
    examined = []
    for number, template, began, created in ((1, "t-old", NOW - 9e6, NOW - 5.0), (2, "t-new", NOW - 60.0, NOW - 60.0)):
        own = Container(f"p-{number}", "kube-system", "kube-apiserver", "running", uid=f"u-{number}", template=template)
        first = replace(own, name="address", state="exited", created=began)
        seen = controller(f"controller-{number}", serves=True, containers=(replace(own, created=created), first))
        examined.append(Examined(seen.host, seen.facts))
    found = diagnose(examined, ApiSeen(True, "ok", refuses="apps/v1: HTTP 404"))
    assert [item.wrong for item in found.controllers] == [False, True]


def test_tokens_of_pods_that_a_dead_kubelet_left_behind_prove_nothing() -> None:
    """They were evicted, and their tokens have ended: the kubelet didn't hear of it, and their containers still run."""
    seen = controller(serves=True)
    assert seen.facts is not None
    at = "127.1.1.1:6443"
    clients = (
        Client("kubelet", 200, NOW - 100, NOW + 100, pod="u", address=at),
        Client("kube-scheduler", 200, NOW - 100, NOW + 100, pod="u", address=at),
        Client("the token of kube-system/coredns-1", 401, pod="u", address=at),
        Client("the token of kube-system/metrics-server-1", 401, pod="u", address=at),
    )
    dead = replace(seen.facts, clients=clients, kubelet=Unit("kubelet", "inactive", "dead"))
    assert not diagnose([Examined(seen.host, dead)], FINE).wrong
    assert diagnose([Examined(seen.host, replace(seen.facts, clients=clients))], FINE).wrong


def test_deeper_cause_explains_it() -> None:
    """Where etcd has lost its data, the API server isn't to blame, and isn't replaced; nor is it called right."""
    lost = replace(facts(), etcd=replace(facts().etcd, data="empty", server=Unknown("no answer")))
    seen = diagnose([Examined(HOST, lost)], ApiSeen(True, "ok", "apps/v1: HTTP 404"))
    assert (seen.wrong, seen.serves) == ("", False)
    assert "api.refuses" in [finding.id for finding in seen.findings]


def _examiner(monkeypatch: pytest.MonkeyPatch, kube: FakeKube, found: HostFacts) -> examiner.Examiner:
    host = Host("controller-1", "10.0.0.1")
    monkeypatch.setattr(examiner, "examine_all", lambda *_: (Examined(host, found),))
    return examiner.Examiner(FakeHosts(), kube, Cluster(Path(), Path(), "", Path(), (host,)))


def _examined(monkeypatch: pytest.MonkeyPatch, kube: FakeKube, found: HostFacts) -> ApiSeen:
    return _examiner(monkeypatch, kube, found)().api


def test_examiner_of_the_machines_alone_asks_no_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a slow or silent API would answer costs nothing then, and isn't held against it."""
    silent = FakeKube()
    silent.unavailable = True
    seen = _examiner(monkeypatch, silent, facts()).machines()
    assert seen.serves and seen.controllers[0].facts == facts()
    assert not _examiner(monkeypatch, silent, facts())().serves


def test_examiner_misses_helms_records_of_a_release_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a release's pods run without Helm's records, the API serves another content; kubeadm's pods have none."""
    kube = FakeKube()
    kube.raw_answers["/readyz"] = "ok"
    own = Container("kube-apiserver-abc", "kube-system", "kube-apiserver", "running", created=NOW)
    released = controller(
        serves=True, containers=(own,), generations=(replace(generation(4), helm_revision="7"),)
    ).facts
    assert released is not None
    assert "are gone" in _examined(monkeypatch, kube, released).refuses
    static = replace(released, containers=(replace(own, static=True),))
    assert _examined(monkeypatch, kube, static).refuses == ""
    kube.raw_answers["/readyz"] = ApiError("not ready")
    assert not _examined(monkeypatch, kube, released).answers


def test_what_something_else_answers_is_no_api() -> None:
    """A gateway that answers everything with 200: recover doesn't call the cluster healthy for it."""
    kube = FakeKube()
    kube.raw_answers["/readyz"] = '{"status": "UP"}'
    seen = examiner.read_api(kube)
    assert not seen.answers and "not from a Kubernetes API" in seen.answer


def test_api_that_does_not_accept_the_credentials_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 401 to /readyz is an answer: waiting changes nothing, and the cluster's own clients decide who is at fault."""
    kube = FakeKube()
    error = ApiError("HTTP 401 Unauthorized")
    error.status = 401
    kube.raw_answers["/readyz"] = error
    seen = _examined(monkeypatch, kube, facts(("kubelet", 401), ("kube-scheduler", 401)))
    assert (seen.answers, seen.credentials, seen.refuses) == (True, True, "HTTP 401 Unauthorized")
