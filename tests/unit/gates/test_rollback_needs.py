"""Whether an API server that answers refuses what a rollback needs."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, ApiLost, ApiUnavailable
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, PODS, REPLICA_SETS, SECRETS, WORKLOADS
from upgrader.gates.rollback_needs import REFUSALS, is_refusal, lasting_refusal, refusal
from upgrader.model.outcome import holds, pending
from upgrader.ports import Kind, KubeObject

RECORD = {"metadata": {"name": "sh.helm.release.v1.web.v1", "labels": {"owner": "helm", "name": "web"}}}

TEMPLATE = {"spec": {"containers": [{"name": "kube-apiserver", "image": "example/kube-apiserver:v1"}]}}
DEPLOYMENT = {"metadata": {"name": "kube-apiserver", "namespace": "kube-system"}, "spec": {"template": TEMPLATE}}


class RefusingKube(FakeKube):
    """Answers every list with this error, until it is None."""

    def __init__(self, error: ApiError | None) -> None:
        super().__init__()
        self.error = error
        self.raw_answers["/readyz"] = "ok"

    def list(self, *args: object, **kwargs: object) -> tuple[dict[str, object], ...]:
        if self.error is not None:
            raise self.error
        return ()


def refused(status: int) -> ApiError:
    """An answer of the API with that status."""
    error = ApiError(f"HTTP {status}")
    error.status = status
    return error


@pytest.mark.parametrize(("status", "credentials"), [(401, True), (403, True), (404, False)])
def test_refusal_is_in_the_servers_words(status: int, credentials: bool) -> None:
    """Whatever the API refuses is one; only 401 and 403 may be the caller's own fault."""
    found = refusal(RefusingKube(refused(status)))
    assert found is not None
    assert (found.text, found.credentials) == (f"HTTP {status}", credentials)


@pytest.mark.parametrize(
    "message",
    [
        "Internal error occurred: no matching key was found for the provided AES transformer",
        "corrupt object, Code: 7, AdditionalErrorMsg: data from the storage is not transformable: stale key",
    ],
    ids=["until v1.36", "since v1.37"],
)
def test_server_error_is_a_refusal_only_where_it_does_not_pass(message: str) -> None:
    """etcd that is slow answers 500 as well; a Secret that no key opens stays unreadable."""
    assert refusal(RefusingKube(refused(500))) is None
    error = ApiError(f"HTTP 500 {message}")
    error.status = 500
    assert refusal(RefusingKube(error)) is not None


def test_no_answer_is_no_refusal() -> None:
    """An API that is down is another matter, which others wait for."""
    assert refusal(RefusingKube(ApiUnavailable("connection refused"))) is None


@pytest.mark.parametrize("kind", [SECRETS, CONFIG_MAPS])
def test_records_of_an_installed_release_must_be_there(kube: FakeKube, kind: object) -> None:
    """A cluster that has lost them serves another content; they may be where HELM_DRIVER put them."""
    found = refusal(kube, "web")
    assert found is not None and "records of release web are gone" in found.text
    kube.put(kind, RECORD, "kube-system")  # type: ignore[arg-type]
    assert refusal(kube, "web") is None
    assert refusal(kube) is None


def test_release_without_records_is_no_refusal_where_its_workload_is(kube: FakeKube) -> None:
    """Argo CD applies a chart without Helm's records, and HELM_DRIVER may put them into a database."""
    kube.put(WORKLOADS["Deployment"], DEPLOYMENT)
    assert refusal(kube, "kube-apiserver") is None


def test_refusal_lasts_only_if_it_is_repeated(clock: FakeClock) -> None:
    """What is refused once may be an instance that starts: it must be refused time after time."""
    kube = RefusingKube(refused(403))

    class Clock(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            kube.error = None

    assert lasting_refusal(kube, Clock()) is None
    kube.error = refused(403)
    assert lasting_refusal(kube, clock) is not None
    assert clock.monotonic() == REFUSALS - 1


def test_waiting_ends_when_the_api_refuses_what_a_rollback_needs(clock: FakeClock) -> None:
    """While something isn't healthy the API is asked every few seconds; what it refuses three times ends the wait."""
    kube = RefusingKube(refused(404))
    absence = ApiAbsence(kube, clock, 60.0)
    starting = [pending("Deployment/kube-apiserver: starting")]
    for _ in range(4):
        absence.check(starting)
        clock.sleep(1.0)
    with pytest.raises(ApiLost, match="answers, but rejects requests that a rollback needs: HTTP 404"):
        absence.check(starting)


def test_healthy_round_forgets_refusals(clock: FakeClock) -> None:
    """Refusals count only while something isn't healthy, and only in a row."""
    kube = RefusingKube(refused(404))
    absence = ApiAbsence(kube, clock, 60.0)
    for _ in range(2):
        for _ in range(2):
            absence.check([pending("starting")])
            clock.sleep(3.0)
        absence.check([holds("fine")])
        clock.sleep(3.0)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ('secrets is forbidden: User "a" cannot list resource "secrets"', True),
        ("the server could not find the requested resource", True),
        ("query: Unauthorized", True),
        ("context deadline exceeded", False),
    ],
)
def test_helm_quotes_what_was_refused(words: str, refused: bool) -> None:
    """Its failure is told from one of another cause by the API server's own words."""
    assert is_refusal(f"helm rollback failed: {words}") is refused


@pytest.mark.parametrize(
    ("status", "message", "refuses"),
    [
        (403, 'secrets "upgrader-trial" is forbidden: admission control is denying all modifications', True),
        (403, 'admission webhook "x" denied the request: admission control is denying all modifications', False),
        (403, 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2', False),
        (403, 'secrets is forbidden: User "anna" cannot create resource "secrets" in API group ""', False),
        (403, 'admission webhook "policy.example" denied the request: no', False),
        (403, "secrets is forbidden: ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", False),
        (403, 'secrets "upgrader-trial" is forbidden: exceeded quota: few', False),
        (500, 'Internal error occurred: failed calling webhook "policy.example"', False),
        (409, "already exists", False),
    ],
)
def test_server_that_forbids_every_write_is_one_that_refuses(status: int, message: str, refuses: bool) -> None:
    """Helm can't record its rollback there. What a webhook, a policy, a quota or RBAC forbids is stored in the API, and
    another kube-apiserver would forbid it as well.
    """
    kube = FakeKube()
    kube.refuses_dry_run = refused(status)
    kube.refuses_dry_run.message = message
    found = refusal(kube)
    assert (found is not None) is refuses
    assert found is None or (found.text, found.credentials) == (message, False)


class NoPods(FakeKube):
    """Admits no pod whose name begins so, in these words. Its ReplicaSets `-old` and `-new` have so many Ready pods."""

    def __init__(self, words: str, begins: str = "kube-apiserver", old: int = 1, new: int = 0) -> None:
        super().__init__()
        self.words, self.begins = words, begins
        meta: dict[str, object] = {"name": "kube-apiserver", "namespace": "kube-system", "uid": "u"}
        self.put(WORKLOADS["Deployment"], {**DEPLOYMENT, "metadata": meta})
        self.put(NAMESPACES, {"metadata": {"name": "kube-system", "labels": {}}})
        for name, ready in (("old", old), ("new", new)):
            meta = {"name": f"kube-apiserver-{name}", "namespace": "kube-system", "ownerReferences": [{"uid": "u"}]}
            found = {"metadata": meta, "spec": {"template": TEMPLATE}, "status": {"readyReplicas": ready}}
            self.put(REPLICA_SETS, found)

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        name = manifest["metadata"]["name"]
        if kind == PODS and self.words and name.startswith(self.begins):
            error = refused(403)
            error.message = f'pods "{name}" is forbidden: {self.words}'
            raise error
        return super().create(kind, manifest, namespace, dry_run=dry_run)


@pytest.mark.parametrize(
    ("words", "alone", "admitted"),
    [
        ("", False, False),
        ("admission control is denying all modifications", True, True),
        ('Post "https://127.0.0.1:2998/": connection refused', False, True),
        ("image policy webhook backend denied one or more images: no", False, True),
        ('violates PodSecurity "restricted:latest": host namespaces', False, True),
        # All of these are stored in the API, where every instance reads them, or pass by themselves.
        ("pod node label selector conflicts with its namespace node label selector", False, False),
        ("maximum cpu usage per Container is 1, but limit is 2", False, False),
        ("failed quota: compute: must specify limits.cpu for: kube-apiserver", False, False),
        ("status unknown for quota: compute, resources: limits.cpu", False, False),
        ("no PriorityClass with name x was found", False, False),
        ('pod rejected: RuntimeClass "gvisor" not found', False, False),
        ('error looking up service account kube-system/x: serviceaccount "x" not found', False, False),
        ("not yet ready to handle request", False, False),
        ("unable to validate against any security context constraint: []", False, False),
        ('admission webhook "policy.example" denied the request: no', False, False),
        ('admission webhook "x" denied the request: image policy webhook backend denied one or more', False, False),
        ("ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no", False, False),
        ("exceeded quota: few", False, False),
        ('User "anna" cannot create resource "pods" in API group ""', False, False),
    ],
)
def test_server_that_admits_no_pod_is_one_that_refuses(words: str, alone: bool, admitted: bool) -> None:
    """Helm could record its rollback there, and would then wait for a pod that nobody may create.

    `alone`: by its own words. `admitted`: because such a pod was admitted before the run.
    """
    kube = NoPods(words)
    for found, refuses in ((refusal(kube), alone), (refusal(kube, admitted=True), admitted)):
        assert (found is not None) is refuses
        assert found is None or "kube-apiserver-old-dry-run" in found.text


def test_pods_that_were_admitted_are_tried_again_without_a_list(clock: FakeClock) -> None:
    """While a run waits, it asks every two seconds: four requests each time, until a pod is refused."""
    kube = NoPods("")
    asked: list[str] = []
    real = kube._check

    def check(what: str) -> None:
        asked.append(" ".join(what.split()[:2]))
        real(what)

    kube._check = check  # type: ignore[method-assign]
    absence, rounds = ApiAbsence(kube, clock, 60.0), []
    for _ in range(3):
        asked.clear()
        absence.check([pending("starting")])
        rounds.append(list(asked))
        clock.sleep(2)
    first, *later = rounds
    assert first == ["list secrets", "list deployments", "create secrets", "list replicasets", "create pods"]
    assert later == [["list secrets", "list deployments", "create secrets", "create pods"]] * 2
    kube.words = "admission control is denying all modifications"
    for _ in range(REFUSALS - 1):
        absence.check([pending("starting")])
        clock.sleep(2)
    with pytest.raises(ApiLost, match="denying all modifications"):
        absence.check([pending("starting")])


@pytest.mark.parametrize(("old", "new"), [(1, 0), (1, 1), (0, 0)])
def test_change_that_no_api_server_would_admit_is_no_refusal(old: int, new: int) -> None:
    """Values with a priority class that doesn't exist: their own pods are forbidden, and those that run are not. The
    API server is right, and must not be stopped; where none is Ready, nothing is known.
    """
    kube = NoPods("no PriorityClass with name x was found", "kube-apiserver-new", old, new)
    assert refusal(kube, admitted=True) is None


@pytest.mark.parametrize("there", [True, False])
def test_pod_security_by_a_label_is_no_servers_fault(there: bool) -> None:
    """Somebody may label kube-system during a run; where its labels aren't known, nothing is."""
    kube = NoPods('violates PodSecurity "baseline:latest": host namespaces')
    if there:
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "labels": labels}})
    else:
        kube.delete(NAMESPACES, "kube-system")
    assert refusal(kube, admitted=True) is None


def test_name_of_the_server_is_no_refusal(clock: FakeClock) -> None:
    """A message has the server's address: `k8s.digital-transformation.example` says nothing of encryption."""
    error = refused(500)
    error.message = "the API server at https://k8s.digital-transformation.example:6443 refused: HTTP 500 timed out"
    assert lasting_refusal(RefusingKube(error), clock) is None
