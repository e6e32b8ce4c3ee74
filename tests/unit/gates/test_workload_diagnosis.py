"""Why a workload isn't healthy: the cause by name, with its evidence, and `broken` only when waiting won't help."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import (
    add_daemonset,
    add_deployment,
    add_event,
    add_pod,
    container,
    crashed,
    running,
    waiting,
)
from upgrader.contract.checkpoints import CONDITION
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import SECRETS, WORKLOADS
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.gates.workload_reading import find_workload
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import CHECKPOINT_OF, WorkloadRef
from upgrader.ports import Kind, KubeObject

WEB = WorkloadRef("Deployment", "kube-system", "web")


def look(kube: FakeKube, ref: WorkloadRef = WEB) -> Verdict:
    """One diagnosis."""
    return diagnose_workload(kube, ref)


def rolling(kube: FakeKube, *containers: dict[str, Any], **pod: Any) -> str:
    """A Deployment in the middle of a surge: its new pod is as given, its old one is healthy."""
    add_deployment(kube, revision=1)
    add_deployment(kube, revision=2, generation=2, updatedReplicas=0)
    add_pod(kube, "web", revision=1)
    return add_pod(kube, "web", *containers, revision=2, **pod)


def test_bad_flag_is_named_with_the_log(kube: FakeKube) -> None:
    """The message names the workload, the pod, the container, its exit code, and the flag from the log."""
    pod = rolling(kube, crashed(1))
    kube.log_texts[pod, "main", False] = "Flag --old has been deprecated\nError: unknown flag: --nonsense\n"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert verdict.reason == (
        f"Deployment kube-system/web: container main of pod {pod} on controller-1 exits with 1 (restarted 2 times): "
        "Error: unknown flag: --nonsense"
    )
    assert "log of main: Error: unknown flag: --nonsense" in verdict.details


def test_first_crashes_are_not_yet_broken(kube: FakeKube) -> None:
    """One restart may be an accident; the cause is said all the same."""
    pod = rolling(kube, crashed(1, restarts=1))
    kube.log_texts[pod, "main", False] = "Error: no etcd\n"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason.endswith("exits with 1: Error: no etcd")
    assert verdict.failing
    rolling(kube, running(ready=False))
    assert not look(kube).failing


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: unknown flag: --nonsense", VerdictKind.BROKEN),
        ("Error: unknown shorthand flag: 'x' in -x", VerdictKind.BROKEN),
        (
            'Error: invalid argument "x" for "--v" flag: strconv.ParseInt: parsing "x": invalid syntax',
            VerdictKind.BROKEN,
        ),
        ("flag provided but not defined: -nonsense", VerdictKind.BROKEN),
        ("checkpointer: error: unrecognized arguments: --nonsense", VerdictKind.BROKEN),
        ("Error: dial tcp 127.0.0.1:2379: connect: connection refused", VerdictKind.PENDING),
        ("Error: open /etc/kubernetes/pki/ca.crt: no such file or directory", VerdictKind.PENDING),
        ("panic: unknown flag of weather", VerdictKind.PENDING),
    ],
)
def test_wrong_arguments_are_certain_at_the_first_end(kube: FakeKube, said: str, kind: VerdictKind) -> None:
    """What depends on the command line alone won't change by a restart; anything else may."""
    pod = rolling(kube, container("main", {"terminated": {"exitCode": 1, "reason": "Error"}}, ready=False))
    kube.log_texts[pod, "main", False] = f"I0101 00:00:00.000000 1 server.go:1] starting\n{said}\n"
    assert look(kube).kind is kind


LOCAL = ("kube-apiserver", "--etcd-servers=https://127.0.0.1:2999")
THREE = ("kube-apiserver", "--etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379,https://[fd00::3]:2379")
EVENTS_APART = (*THREE, "--etcd-servers-overrides=/events#https://127.0.0.1:2999")


def dialing(*times: str, address: str = "127.0.0.1:2999") -> str:
    """A log of kube-apiserver that can't reach a server of its etcd, with a failure at each of these times."""
    return "I0101 00:00:01.000000       1 options.go:263] external host was not specified\n" + "".join(
        f"W0101 {time}.123456       1 logging.go:55] [core] [Channel #1 SubChannel #3]grpc: addrConn.createTransport "
        f'failed to connect to {{Addr: "{address}", ServerName: "{address}", }}. Err: connection error: desc = '
        f'"transport: Error while dialing: dial tcp {address}: connect: connection refused"\n'
        for time in times
    )


def all_dialing(*addresses: str, times: Sequence[str] = ("00:00:02", "00:00:05", "00:00:12")) -> str:
    """The same with a failure of each of these servers at each of the times."""
    return "".join(dialing(time, address=address) for time in times for address in addresses)


@pytest.mark.parametrize(
    ("times", "restarts", "kind"),
    [
        (("00:00:02", "00:00:05", "00:00:12"), 0, VerdictKind.BROKEN),
        (("23:59:55", "00:00:07"), 0, VerdictKind.BROKEN),
        (("00:00:02", "00:00:11"), 0, VerdictKind.PENDING),
        (("00:00:02", "00:00:40"), 1, VerdictKind.PENDING),
        ((), 0, VerdictKind.PENDING),
    ],
    ids=["10 s", "past midnight", "9 s", "after a reboot", "connected"],
)
def test_dead_backend_is_certain_before_the_crash(
    kube: FakeKube, times: tuple[str, ...], restarts: int, kind: VerdictKind
) -> None:
    """A new container that can't connect for longer than etcd takes to restart won't ever; its log says to where."""
    pod = rolling(kube, running(ready=False, restarts=restarts, command=LOCAL))
    kube.log_texts[pod, "main", False] = dialing(*times)
    verdict = look(kube)
    assert verdict.kind is kind
    if kind is VerdictKind.BROKEN:
        assert "it can't connect to 127.0.0.1:2999: " in verdict.reason and "refused" in verdict.reason


@pytest.mark.parametrize(
    ("command", "away", "lost"),
    [
        (THREE, ("10.0.0.2:2379",), ""),
        (THREE, ("10.0.0.1:2379", "[fd00::3]:2379"), ""),
        (THREE, ("10.0.0.1:2379", "10.0.0.2:2379", "[fd00::3]:2379"), "10.0.0.1:2379, 10.0.0.2:2379, [fd00::3]:2379"),
        (EVENTS_APART, ("127.0.0.1:2999",), "127.0.0.1:2999"),
        (("kube-apiserver",), ("10.0.0.2:2379",), ""),
        (LOCAL, ("/run/kms.sock",), ""),
    ],
    ids=["one of three", "two of three", "all", "that of events", "not known", "not etcd"],
)
def test_backend_is_dead_once_none_of_its_servers_answers(
    kube: FakeKube, command: tuple[str, ...], away: tuple[str, ...], lost: str
) -> None:
    """kube-apiserver is served by any one of etcd's servers, and logs the others all the same while it starts."""
    pod = rolling(kube, running("kube-apiserver", ready=False, command=command))
    kube.log_texts[pod, "kube-apiserver", False] = all_dialing(*away)
    verdict = look(kube)
    assert verdict.kind is (VerdictKind.BROKEN if lost else VerdictKind.PENDING)
    assert not lost or f"kube-apiserver: it can't connect to {lost}: " in verdict.reason


def test_backend_of_many_clients_is_dead(kube: FakeKube) -> None:
    """Dozens of clients fill the last lines within a second: the older ones tell for how long."""
    pod = rolling(kube, running("kube-apiserver", ready=False, command=THREE))
    servers = ("10.0.0.1:2379", "10.0.0.2:2379", "[fd00::3]:2379")
    times = ["00:00:02"] * 15 + ["00:00:12"] * 15
    kube.log_texts[pod, "kube-apiserver", False] = all_dialing(*servers, times=times)
    assert look(kube).kind is VerdictKind.BROKEN


def test_backend_that_has_just_answered_is_no_cause(kube: FakeKube) -> None:
    """etcd was away for 10 s; what kube-apiserver logs in the second after that, it couldn't do without it."""
    pod = rolling(kube, running("kube-apiserver", ready=False, command=LOCAL))
    goes_on = "I0101 00:00:13.123456       1 handler.go:288] Adding GroupVersion apps v1 to ResourceManager\n" * 60
    kube.log_texts[pod, "kube-apiserver", False] = dialing("00:00:02", "00:00:12") + goes_on
    assert look(kube).kind is VerdictKind.PENDING


@pytest.mark.parametrize("why", ["operation was canceled", "context canceled"])
def test_connection_that_the_client_itself_gave_up_is_no_dead_backend(kube: FakeKube, why: str) -> None:
    """A kube-apiserver that starts on a busy node closes clients of etcd that it was opening; nothing refused them."""
    pod = rolling(kube, running(ready=False, command=LOCAL))
    log = dialing("00:00:02", "00:00:40").replace("connect: connection refused", why)
    kube.log_texts[pod, "main", False] = log
    assert look(kube).kind is VerdictKind.PENDING


def test_dead_backend_of_another_container_is_the_cause(kube: FakeKube) -> None:
    """A proxy that waits for kube-apiserver fails its probe first, and has nothing to say about etcd."""
    pod = rolling(kube, running("kube-apiserver", ready=False, command=LOCAL), running("proxy", ready=False))
    add_event(kube, f"{pod}-uid", "Unhealthy", "not listening", field="spec.containers{proxy}")
    kube.log_texts[pod, "kube-apiserver", False] = dialing("00:00:02", "00:00:12")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert "kube-apiserver: it can't connect to 127.0.0.1:2999" in verdict.reason


def test_dead_backend_is_certain_at_the_first_end(kube: FakeKube) -> None:
    """kube-apiserver ends after 20 s of trying: its first end is enough."""
    ended = container("main", {"terminated": {"exitCode": 1, "reason": "Error"}}, ready=False, command=LOCAL)
    pod = rolling(kube, ended)
    kube.log_texts[pod, "main", False] = dialing("00:00:02", "00:00:18")
    assert look(kube).kind is VerdictKind.BROKEN


def test_backend_that_answers_again_is_no_cause(kube: FakeKube) -> None:
    """etcd was away for 10 s, and kube-apiserver has gone on since: it isn't Ready for another reason."""
    pod = rolling(kube, running("kube-apiserver", ready=False, command=LOCAL))
    since = "I0101 00:00:30.123456       1 controller.go:1] something else\n"
    kube.log_texts[pod, "kube-apiserver", False] = dialing("00:00:02", "00:00:12") + since
    assert look(kube).kind is VerdictKind.PENDING


OBJECT = "/registry/secrets/kube-system/key"
LOST = "no matching key was found for the provided AES"


def retried(resource: str, said: str, times: tuple[str, ...]) -> str:
    """A log of kube-apiserver that can't list a resource, with a try at each of these times."""
    return "".join(
        f"E0101 {time}.123456       1 cacher.go:475] cacher ({resource}): unexpected ListAndWatch error: failed to "
        f"list *core.Secret: {said}; reinitializing...\n"
        for time in times
    )


def undecrypted(*times: str, key: str = OBJECT, resource: str = "secrets") -> str:
    """One that has lost a key."""
    return retried(resource, f'unable to transform key "{key}": {LOST}', times)


def corrupt(*times: str) -> str:
    """The same since v1.37."""
    said = (
        "failed to read one or more secrets from the storage: StorageError: corrupt object, Code: 7, Key: "
        f"{OBJECT}, ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision=0: "
        f"{LOST} (and 3 more)"
    )
    return retried("secrets", said, times)


def starting(kube: FakeKube, log: str, *flags: str) -> None:
    """A kube-apiserver that isn't Ready yet, with its log, beside the one of before; that one answers."""
    verbs = ["get", "list", "patch"]
    groups = [{"name": "example.com", "preferredVersion": {"groupVersion": "example.com/v1"}, "versions": []}]
    core = [{"name": name, "namespaced": True, "verbs": verbs} for name in ("configmaps", "secrets")]
    kube.raw_answers["/apis"] = json.dumps({"groups": groups})
    kube.raw_answers["/api/v1"] = json.dumps({"resources": core})
    widgets = {"resources": [{"name": "widgets", "namespaced": False, "verbs": verbs}]}
    kube.raw_answers["/apis/example.com/v1"] = json.dumps(widgets)
    add_deployment(kube, revision=1)
    add_deployment(kube, revision=2, generation=2, updatedReplicas=0)
    add_pod(kube, "web", running("kube-apiserver"), revision=1)
    begun = running("kube-apiserver", ready=False, command=("kube-apiserver", *flags))
    new = add_pod(kube, "web", begun, revision=2)
    kube.log_texts[new, "kube-apiserver", False] = log


def stored(kube: FakeKube) -> None:
    """The object is one that the instance of before can decrypt."""
    kube.put(SECRETS, {"metadata": {"name": "key", "namespace": "kube-system"}})


class Undecrypting(FakeKube):
    """An API whose instances all lack the key of an object."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        if name == "old":
            raise ApiError(
                f'Internal error occurred: unable to transform key "/registry/configmaps/default/old": {LOST}'
            )
        return super().get(kind, name, namespace)


@pytest.mark.parametrize("logged", [undecrypted, corrupt], ids=["until v1.36", "since v1.37"])
def test_lost_key_is_certain_at_once(kube: FakeKube, logged: Callable[..., str]) -> None:
    """What a new kube-apiserver can't decrypt, as the one before can, it won't; the object and the flag are named."""
    starting(kube, logged("00:00:02"))
    stored(kube)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert verdict.reason.endswith(f"kube-apiserver: it can't decrypt {OBJECT} (encryption-provider-config): {LOST}")


@pytest.mark.parametrize(
    ("value", "kind"),
    [("=true", VerdictKind.PENDING), ("", VerdictKind.PENDING), ("=false", VerdictKind.BROKEN)],
    ids=["on", "on by its name alone", "off"],
)
def test_lost_key_that_a_reload_may_bring(kube: FakeKube, value: str, kind: VerdictKind) -> None:
    """While new keys are being copied to the controllers, another instance may have written with one that this node's
    file gets a little later: an instance that reads the file again then becomes Ready.
    """
    reload = f"--encryption-provider-config-automatic-reload{value}"
    starting(kube, undecrypted("00:00:02", "00:00:40"), reload)
    stored(kube)
    assert look(kube).kind is kind


def test_lost_key_of_many_objects(kube: FakeKube) -> None:
    """Since v1.37 each try has a line for each of up to a hundred objects: the lines that are read are of one second,
    and only one of them names an object.
    """
    of_each = f'E0101 00:00:40.123456       1 transformer.go:164] "failed to decrypt data" err="{LOST}"\n'
    starting(kube, 200 * of_each + corrupt("00:00:40") + 99 * of_each)
    stored(kube)
    assert look(kube).kind is VerdictKind.BROKEN


@pytest.mark.parametrize("logged", [undecrypted, corrupt], ids=["until v1.36", "since v1.37"])
@pytest.mark.parametrize(
    "said",
    [
        'Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /kms.sock: no file"',
        "DeadlineExceeded desc = context deadline exceeded",
        "Unknown desc = the vault is sealed",
    ],
    ids=["no plugin", "no answer", "its own error"],
)
def test_kms_plugin_that_is_away_is_no_lost_key(kube: FakeKube, logged: Callable[..., str], said: str) -> None:
    """It may be back within the pod's deadline; the instance of before decrypts from its memory meanwhile."""
    why = f"failed to decrypt DEK, error: rpc error: code = {said}"
    starting(kube, logged("00:00:02", "00:00:17").replace(LOST, why))
    stored(kube)
    assert look(kube).kind is VerdictKind.PENDING


def test_lost_key_of_a_cluster_scoped_custom_resource(kube: FakeKube) -> None:
    """The object is asked for where the API serves its resource."""
    key = "/registry/example.com/widgets/small"
    starting(kube, undecrypted("00:00:02", "00:00:12", key=key, resource="widgets.example.com"))
    kube.put(Kind("example.com/v1", "widgets", namespaced=False), {"metadata": {"name": "small"}})
    assert look(kube).kind is VerdictKind.BROKEN


def test_object_that_no_instance_can_decrypt_is_no_lost_key() -> None:
    """kube-apiserver becomes Ready with it after a minute, as the one before has, whose log need not say so."""
    kube, key = Undecrypting(), "/registry/configmaps/default/old"
    broken_before = undecrypted("00:00:02", "00:00:40", key=key, resource="configmaps")
    starting(kube, broken_before)
    stored(kube)
    assert look(kube).kind is VerdictKind.PENDING
    starting(kube, broken_before + undecrypted("00:00:03", "00:00:41"))
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN and OBJECT in verdict.reason


def test_lost_key_of_an_object_that_is_gone(kube: FakeKube) -> None:
    """It may have been one that none could decrypt: it proves nothing, and the next try finds it no more."""
    starting(kube, undecrypted("00:00:02", "00:00:40"))
    assert look(kube).kind is VerdictKind.PENDING


@pytest.mark.parametrize("answer", [ApiError("timed out"), "<html>"], ids=["no answer", "a proxy's page"])
def test_lost_key_needs_an_answer_of_another_instance(kube: FakeKube, answer: str | Exception) -> None:
    """Where none is known to decrypt the object, nothing is certain."""
    starting(kube, undecrypted("00:00:02", "00:00:40"))
    stored(kube)
    kube.raw_answers["/apis"] = answer
    assert look(kube).kind is VerdictKind.PENDING


def test_lost_key_that_was_found(kube: FakeKube) -> None:
    """What it has read since is no cause, however long it couldn't before."""
    starting(kube, undecrypted("00:00:02", "00:00:40") + "I0101 00:00:50.000000       1 cacher.go:1] initialized\n")
    stored(kube)
    assert look(kube).kind is VerdictKind.PENDING


def test_each_log_is_read_once(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown, and what is looked for in it, are of the same lines."""
    asked, logs = [], kube.logs

    def counting(namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        asked.append(container)
        return logs(namespace, pod, container, previous=previous, lines=lines)

    monkeypatch.setattr(kube, "logs", counting)
    rolling(kube, running("kube-apiserver", ready=False), running("proxy", ready=False))
    assert look(kube).kind is VerdictKind.PENDING
    assert sorted(asked) == ["kube-apiserver", "proxy"]


def test_program_in_a_probe_that_timed_out_is_not_quoted(kube: FakeKube) -> None:
    """The kubelet's event has the whole command; its first words and the time say enough."""
    pod = rolling(kube, running(ready=False))
    command = r'"python3 -c \"\"\"What it does.\n\nimport sys\nprint(\"x\")\n check"'
    message = f"Readiness probe failed: command timed out: {command} timed out after 10s"
    add_event(kube, f"{pod}-uid", "Unhealthy", message)
    told = 'command timed out: "python3 -c …" timed out after 10s'
    assert look(kube).reason.endswith(f"Unhealthy: Readiness probe failed: {told}")


REFUSED = "Readiness probe failed: proxy: not listening: kube-apiserver is not ready (/readyz: L7STS {})\n"


@pytest.mark.parametrize(
    ("status", "until", "restarts", "kind"),
    [
        (403, "00:00:21", 0, VerdictKind.BROKEN),
        (401, "00:00:21", 0, VerdictKind.BROKEN),
        (403, "00:00:20", 0, VerdictKind.PENDING),
        (403, "00:00:59", 1, VerdictKind.PENDING),
        (500, "00:00:59", 0, VerdictKind.PENDING),
    ],
    ids=["20 s", "unknown user", "19 s", "after a reboot", "not ready yet"],
)
def test_check_that_is_refused_for_long_is_certain(
    kube: FakeKube, status: int, until: str, restarts: int, kind: VerdictKind
) -> None:
    """A kube-apiserver that has started refuses for a moment; one whose authorization denies everything, forever."""
    pod = rolling(kube, running("kube-apiserver", restarts=restarts), running("haproxy", ready=False))
    message, since = REFUSED.format(status), "2026-01-01T00:00:01Z"
    add_event(kube, f"{pod}-uid", "Unhealthy", message, since=since, at=f"2026-01-01T{until}Z")
    verdict = look(kube)
    assert verdict.kind is kind
    if kind is VerdictKind.BROKEN:
        assert f"its readiness check has failed for 20 s: HTTP {status}" in verdict.reason


def test_check_that_fails_otherwise_since_is_not_refused_for_long(kube: FakeKube) -> None:
    """On a busy node, one that has read its roles after half a minute says next that it isn't ready yet."""
    pod = rolling(kube, running("kube-apiserver"), running("haproxy", ready=False))
    since, until, now = (f"2026-01-01T00:00:{each}Z" for each in ("01", "31", "33"))
    add_event(kube, f"{pod}-uid", "Unhealthy", REFUSED.format(403), since=since, at=until)
    add_event(kube, f"{pod}-uid", "Unhealthy", REFUSED.format(500), since=now, at=now)
    assert look(kube).kind is VerdictKind.PENDING


STARTED = "2026-01-01T00:00:01Z"


def throttled(kube: FakeKube, limit: str, before: str, *, until: str = "00:00:22", **old: Any) -> str:
    """A roll of kube-apiserver from one CPU limit to another, whose new pod isn't Ready yet at that time."""
    pod = rolling(
        kube, running("kube-apiserver", since=STARTED, cpu_limit=limit), running("haproxy", ready=False, since=STARTED)
    )
    add_pod(kube, "web", running("kube-apiserver", cpu_limit=before), revision=1, **old)
    message = "Readiness probe failed: proxy: not listening: kube-apiserver is not ready (/readyz: L4TOUT )"
    add_event(kube, f"{pod}-uid", "Unhealthy", message, since=STARTED, at=f"2026-01-01T{until}Z")
    return pod


@pytest.mark.parametrize(("before", "words"), [("", "no CPU limit"), ("500m", "a CPU limit of 500m")])
def test_cpu_limit_below_what_any_cluster_needs_is_certain_while_the_instance_before_serves(
    kube: FakeKube, before: str, words: str
) -> None:
    """Helm isn't waited for until the throttled instance has replaced the one through which a rollback is quick."""
    throttled(kube, "50m", before)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert verdict.reason.endswith(
        "is running but not ready: kube-apiserver: it is not ready 21 s after its start, with a CPU limit of 50m "
        "(resources.limits.cpu): even without clients it needs 100m. The instance that it replaces is ready, with "
        f"{words}"
    )


@pytest.mark.parametrize(
    ("limit", "before", "more"),
    [
        ("100m", "", {}),
        ("", "", {}),
        ("50m", "", {"until": "00:00:20"}),
        ("50m", "50m", {}),
        ("50m", "20m", {}),
        ("50m", "", {"deleting": True}),
    ],
    ids=["enough", "no limit", "19 s", "as before", "raised", "nothing serves beside it"],
)
def test_slow_start_is_no_fault_of_a_cpu_limit(kube: FakeKube, limit: str, before: str, more: dict[str, Any]) -> None:
    """On a busy machine a start takes long without a limit, too, and a limit that was there before is no change."""
    throttled(kube, limit, before, **more)
    assert look(kube).kind is VerdictKind.PENDING


def test_instance_that_ran_before_is_not_judged_by_its_cpu_limit(kube: FakeKube) -> None:
    """After a reboot, a start waits for much else."""
    pod = throttled(kube, "50m", "")
    haproxy = running("haproxy", ready=False, since=STARTED)
    add_pod(kube, "web", running("kube-apiserver", since=STARTED, cpu_limit="50m", restarts=1), haproxy, revision=2)
    assert look(kube).kind is VerdictKind.PENDING and pod in look(kube).reason


def test_log_without_times_proves_nothing(kube: FakeKube) -> None:
    """Failures in an unknown format are not measured."""
    pod = rolling(kube, running(ready=False))
    kube.log_texts[pod, "main", False] = 'failed to connect to {Addr: "a:1", }. Err: "refused"\n' * 2
    assert look(kube).kind is VerdictKind.PENDING


def ended(code: int, *, seconds: int, reason: str = "Error") -> dict[str, Any]:
    """A container whose third instance ended after some seconds, and that isn't said to be backing off."""
    times = {"startedAt": "2025-12-01T00:00:00Z", "finishedAt": f"2025-12-01T00:{seconds // 60:02}:{seconds % 60:02}Z"}
    state = {"terminated": {"exitCode": code, "reason": reason, **times}}
    return container("main", state, ready=False, restarts=2, last=state)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (ended(1, seconds=3), VerdictKind.BROKEN),
        (ended(0, seconds=3), VerdictKind.BROKEN),
        (ended(255, seconds=3, reason="Unknown"), VerdictKind.PENDING),
        (ended(143, seconds=1800), VerdictKind.PENDING),
    ],
    ids=["crash loop", "keeps ending", "power cut", "reboot"],
)
def test_crash_loop_is_told_from_a_reboot(kube: FakeKube, ending: dict[str, Any], kind: VerdictKind) -> None:
    """The kubelet shows a crash loop as "terminated" most of the time; a node that was switched off shows the same."""
    rolling(kube, ending)
    assert look(kube).kind is kind


def test_lost_container_is_not_blamed_on_its_log(kube: FakeKube) -> None:
    """After a power cut the last lines of the log have nothing to do with the container's end."""
    pod = rolling(kube, ended(255, seconds=3, reason="Unknown"))
    kube.log_texts[pod, "main", False] = "Error: something of last week\n"
    assert look(kube).reason.endswith("was lost: its node went down, or the runtime lost the container")


def test_program_that_is_not_there_is_broken(kube: FakeKube) -> None:
    """RunContainerError is a crash loop in which the program never starts; the runtime's words are the cause."""
    words = 'exec: "/nope": no such file or directory'
    rolling(kube, waiting("RunContainerError", words, restarts=2))
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert words in verdict.reason


def test_usage_is_left_out_of_the_log(kube: FakeKube) -> None:
    """kube-scheduler prints the help of all its flags before it names the wrong one."""
    pod = rolling(kube, crashed(1))
    usage = (
        "Usage:\n  kube-scheduler [flags]\nLogs flags:\n      --format string   Sets it.\n  -v, --v Level   verbosity\n"
    )
    kube.log_texts[pod, "main", False] = usage + "Error: unknown flag: --nonsense\n"
    logged = [line for line in look(kube).details if line.startswith("log")]
    assert logged == ["log of main:   kube-scheduler [flags]", "log of main: Error: unknown flag: --nonsense"]


def test_the_container_at_fault_is_named_not_its_neighbour(kube: FakeKube) -> None:
    """HAProxy, which comes first and only waits for its backend, is not the one to blame."""
    pod = rolling(kube, running("haproxy", ready=False), crashed(1, name="kube-apiserver"))
    kube.log_texts[pod, "haproxy", False] = "backend is down\n"
    kube.log_texts[pod, "kube-apiserver", False] = "Error: unknown flag: --nonsense\n"
    verdict = look(kube)
    assert "container kube-apiserver" in verdict.reason
    assert "--nonsense" in verdict.reason
    assert not any("backend is down" in line for line in verdict.details)


def test_previous_instance_is_read_when_the_present_one_runs(kube: FakeKube) -> None:
    """Between two crashes the log that tells is the one before."""
    last = {"terminated": {"exitCode": 1}}
    pod = rolling(kube, running(ready=False, restarts=3, last=last))
    kube.log_texts[pod, "main", True] = "panic: boom\n"
    kube.log_texts[pod, "main", False] = "starting\n"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "before, it exited with 1" in verdict.reason
    assert "log of main: panic: boom" in verdict.details


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])
def test_image_that_cannot_be_had_is_broken(kube: FakeKube, reason: str) -> None:
    """The kubelet would try the same image for ever; the message names it and says what the registry said."""
    pod = rolling(kube, waiting(reason, image="registry.k8s.io/nope:v9"), phase="Pending")
    add_event(kube, f"{pod}-uid", "Failed", "Failed to pull image: not found")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert "registry.k8s.io/nope:v9" in verdict.reason
    assert "not found" in verdict.reason


def test_first_failed_pull_is_pending(kube: FakeKube) -> None:
    """ErrImagePull is the first try: a registry may hiccup."""
    rolling(kube, waiting("ErrImagePull", "connection reset"), phase="Pending")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "connection reset" in verdict.reason


def test_kubelet_that_has_just_started_breaks_nothing(kube: FakeKube) -> None:
    """Until it has read the Services, a kubelet gives every container the reason of one that can't be configured."""
    words = "services have not yet been read at least once, cannot construct envvars"
    rolling(kube, waiting("CreateContainerConfigError", words), phase="Pending")
    assert look(kube).kind is VerdictKind.PENDING


def test_missing_secret_is_broken_at_once(kube: FakeKube) -> None:
    """CreateContainerConfigError carries its own reason."""
    rolling(kube, waiting("CreateContainerConfigError", 'secret "pki" not found'), phase="Pending")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert 'secret "pki" not found' in verdict.reason


def test_out_of_memory_is_said(kube: FakeKube) -> None:
    """OOMKilled is a cause of its own: "exits with 137" would send people looking elsewhere."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    rolling(kube, container("main", state, ready=False, restarts=2, last=last))
    assert "using more memory than its limit (OOMKilled)" in look(kube).reason


def test_unschedulable_pod_says_what_the_scheduler_said(kube: FakeKube) -> None:
    """Too little memory is named; waiting may help, so it isn't broken."""
    rolling(kube, unschedulable="0/1 nodes are available: 1 Insufficient memory.", phase="Pending")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "finds no node: 0/1 nodes are available: 1 Insufficient memory." in verdict.reason


def test_pod_that_no_scheduler_has_seen(kube: FakeKube) -> None:
    """Neither a node nor a reason why there is none: nobody looks for one, and the message names who should."""
    rolling(kube, waiting(""), phase="Pending", awaits="default-scheduler")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "has not been seen by any scheduler: no running scheduler has the name default-scheduler" in verdict.reason


def test_failing_probe_is_quoted(kube: FakeKube) -> None:
    """A container that runs but never gets Ready: what its probe says is the cause, and it is not broken."""
    pod = rolling(kube, running("proxy", ready=False), running("main", ready=False))
    add_event(
        kube,
        f"{pod}-uid",
        "Unhealthy",
        "Readiness probe failed: HTTP probe failed with statuscode: 503",
        field="spec.containers{main}",
    )
    kube.log_texts[pod, "main", False] = "no checkpoint of kube-apiserver yet\n"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "container main" in verdict.reason
    assert "statuscode: 503" in verdict.reason
    assert "log of main: no checkpoint of kube-apiserver yet" in verdict.details


def test_volume_that_cannot_be_mounted_is_quoted(kube: FakeKube) -> None:
    """While containers wait for a volume, the FailedMount event holds the cause."""
    pod = rolling(kube, waiting("ContainerCreating"), phase="Pending")
    add_event(kube, f"{pod}-uid", "FailedMount", 'MountVolume.SetUp failed: configmap "haproxy" not found')
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert 'configmap "haproxy" not found' in verdict.reason


def test_failing_init_container_is_named(kube: FakeKube) -> None:
    """The main container can't have started: the init container is to blame."""
    init = crashed(2, name="pick-address")
    pod = rolling(kube, waiting("PodInitializing"), init=(init,), phase="Pending")
    kube.log_texts[pod, "pick-address", False] = "no address left\n"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert "container pick-address" in verdict.reason
    assert "no address left" in verdict.reason


def test_pods_that_nobody_may_create_are_explained(kube: FakeKube) -> None:
    """Without a pod to look at, the events of the ReplicaSet say why: a quota, a webhook."""
    add_deployment(kube, updatedReplicas=0, readyReplicas=0, availableReplicas=0)
    add_event(kube, "web-rs-1", "FailedCreate", "pods is forbidden: exceeded quota")
    assert "FailedCreate: pods is forbidden: exceeded quota" in look(kube).reason


def test_crashing_pod_of_the_old_revision_does_not_count(kube: FakeKube) -> None:
    """The old revision's trouble is what the upgrade replaces: it must not end it."""
    add_daemonset(kube, "agent", revision=1)
    add_daemonset(kube, "agent", revision=2, updatedNumberScheduled=0, numberReady=0)
    add_pod(kube, "agent", crashed(1), revision=1, daemon=True)
    assert look(kube, WorkloadRef("DaemonSet", "kube-system", "agent")).kind is VerdictKind.PENDING


def test_checkpoint_copy_does_not_count(kube: FakeKube) -> None:
    """A checkpoint's copy is no pod of the workload, whatever its labels say."""
    add_deployment(kube)
    add_pod(kube, "web")
    add_pod(kube, "web", crashed(1), name="copy", labels={"app": "web", CHECKPOINT_OF: "web"})
    assert look(kube).kind is VerdictKind.HOLDS


def test_secrets_are_masked(kube: FakeKube) -> None:
    """A log tail and an event go into reports: tokens in them must not."""
    pod = rolling(kube, crashed(1))
    kube.log_texts[pod, "main", False] = "Error: refused: Authorization: Bearer abcdefghijklmnop\n"
    add_event(kube, f"{pod}-uid", "BackOff", "pull from https://me:hunter2hunter2@registry failed")
    verdict = look(kube)
    text = "\n".join([verdict.reason, *verdict.details])
    assert "abcdefghijklmnop" not in text
    assert "hunter2" not in text
    assert "Bearer [masked]" in text


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ({"exitCode": 128, "reason": "StartError", "message": "no such device"}, "(StartError): no such device"),
        ({"exitCode": 0, "signal": 9, "reason": "Error"}, "was killed by signal 9"),
    ],
)
def test_end_of_a_container_is_named(kube: FakeKube, end: dict[str, Any], cause: str) -> None:
    """A program that the runtime can't start, and one that a signal ended, are no mere exit codes."""
    rolling(kube, container("main", {"terminated": end}, ready=False))
    assert cause in look(kube).reason


def test_init_container_that_runs_is_what_the_pod_waits_for(kube: FakeKube) -> None:
    """While an init container runs, the others are not started: it is named, and its previous end with it."""
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    init = container("migrate", {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=False, last=last)
    rolling(kube, waiting("PodInitializing"), init=(init,))
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "container migrate" in verdict.reason
    assert "is an init container that is still running (before, it exited with 1)" in verdict.reason


def test_ready_container_is_not_blamed(kube: FakeKube) -> None:
    """Of two containers, the one that isn't ready is at fault, whatever their order."""
    rolling(kube, running("fine"), running("slow", ready=False))
    assert "container slow" in look(kube).reason


def test_log_that_cannot_be_read_does_not_hide_the_fault(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet may not answer: the reason stays, and the evidence says what is missing."""

    def refuse(*_: object, **__: object) -> str:
        raise ApiError("the kubelet does not answer")

    rolling(kube, crashed(1))
    monkeypatch.setattr(kube, "logs", refuse)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert "exits with 1" in verdict.reason
    assert "log of main: (the log can't be read: the kubelet does not answer)" in verdict.details


def test_pods_that_cannot_be_created_are_explained(kube: FakeKube) -> None:
    """The controller's own condition says why, as a quota or a webhook refuses them."""
    add_deployment(kube, updatedReplicas=0)
    found: Any = kube.get(WORKLOADS["Deployment"], "web", "kube-system")
    found["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]
    kube.put(WORKLOADS["Deployment"], found)
    assert look(kube).reason == "Deployment kube-system/web: its pods can't be created: exceeded quota"


def test_pod_that_has_no_checkpoint_says_why(kube: FakeKube) -> None:
    """The pod-checkpointer isn't Ready without a checkpoint of itself: its probe says 503, its condition says why."""
    name = rolling(kube, {**running(), "ready": False})
    pod = kube.get(Kind("v1", "pods"), name, "kube-system")
    assert pod is not None
    why = "the kubelet asks for credentials again: give the node credentials for the registry"
    condition = {"type": CONDITION, "status": "False", "reason": "ImageNeedsCredentials", "message": why}
    status = {**pod["status"], "conditions": [*pod["status"].get("conditions", []), condition]}
    kube.put(Kind("v1", "pods"), {**pod, "status": status}, "kube-system")
    assert f"no checkpoint: {why}" in look(kube).details


def test_a_namespace_of_the_users_is_not_listed(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-system has few workloads, which several gates read; another namespace may have thousands."""
    lists: list[str] = []
    every = kube.list

    def noted(kind: Kind, *more: Any, **some: Any) -> Any:
        lists.append(kind.plural)
        return every(kind, *more, **some)

    monkeypatch.setattr(kube, "list", noted)
    kube.put(WORKLOADS["Deployment"], {"metadata": {"name": "web", "namespace": "shop"}})
    assert find_workload(kube, WorkloadRef("Deployment", "shop", "web")) is not None
    assert find_workload(kube, WorkloadRef("Deployment", "shop", "gone")) is None
    assert lists == []
    add_deployment(kube, "web")
    assert find_workload(kube, WorkloadRef("Deployment", "kube-system", "web")) is not None
    assert find_workload(kube, WorkloadRef("Deployment", "kube-system", "gone")) is None
    assert lists == ["deployments"] * 2
