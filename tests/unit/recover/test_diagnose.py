"""What a controller's facts tell: the true cause first, in words, and nothing that it merely explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tests.unit.recover.controllers import ACTIVE_PATH, NOW, generation
from upgrader.model.cluster import Host
from upgrader.recover.diagnosis.diagnose import ApiSeen, Diagnosis, diagnose
from upgrader.recover.facts.host_facts import (
    ETCD_CERTIFICATE,
    Alarm,
    Backup,
    Certificate,
    Clock,
    Container,
    Copy,
    Endpoint,
    Etcd,
    EtcdServer,
    Examined,
    Generation,
    HostFacts,
    Manifests,
    Member,
    Space,
    Unit,
    Unknown,
    Workload,
)

HOUR = 3600.0
GIB = 1 << 30
MEMBERS = tuple(Member(i, f"controller-{n}") for n, i in enumerate(("a1", "b2", "c3"), 1))
SERVER = EtcdServer(True, "HTTP 200", "3.6.8", id="a1", leader="a1", revision=90_000, members=MEMBERS, has_cluster=True)
ETCD = Etcd(True, "/var/lib/etcd", "present", SERVER)
APISERVER_CRT = Certificate("/etc/kubernetes/pki/apiserver.crt", NOW - 9000 * HOUR, NOW + 9000 * HOUR)
KUBELET_PEM = replace(APISERVER_CRT, path="/var/lib/kubelet/pki/kubelet-client-current.pem")
AWAY = Endpoint(False, "nothing listens on port 6443")
CRASHED = Container(
    "kube-apiserver-6d9-x1",
    "kube-system",
    "kube-apiserver",
    "exited",
    image="registry.k8s.io/kube-apiserver:v1.37.1",
    created=NOW - 20,
    finished=NOW - 19,
    exit_code=1,
    attempt=3,
    log=("Error: unknown flag: --nonsense",),
)
RUNNING = Container("kube-apiserver-5c4-y2", "kube-system", "kube-apiserver", "running", created=NOW - HOUR)
NO_ETCD = replace(
    CRASHED, log=('F1121 15:00:00.1 1 instance.go:1] Error creating leases: dial tcp 127.0.0.1:2379: "x"',)
)


def kept(*generations: Generation, active: int | None = None) -> tuple[Workload, ...]:
    """What is kept of kube-apiserver."""
    copy = Copy(ACTIVE_PATH, active) if active is not None else None
    return (Workload("kube-system/kube-apiserver", "api-away", ACTIVE_PATH, generations, copy),)


HEALTHY = HostFacts(
    taken=NOW,
    booted=NOW - 24 * HOUR,
    clock=Clock(0.1, 0.2),
    kubelet=Unit("kubelet", "active", "running"),
    containerd=Unit("containerd", "active", "running"),
    runtime=Endpoint(True, "containerd 2.1.0"),
    spaces=(Space("/", 100 * GIB, 60 * GIB, 10_000, 9_000, device=1),),
    certificates=(APISERVER_CRT, KUBELET_PEM),
    manifests=Manifests(True, ("etcd.yaml",)),
    etcd=ETCD,
    api=Endpoint(True, "ok", "10.0.0.1:6443"),
    containers=(RUNNING,),
    workloads=kept(generation(3), generation(4)),
)
SICK = replace(HEALTHY, api=AWAY, containers=())
"""No kube-apiserver; each case says why."""

STOPPED = Unit("containerd", "inactive", "dead", since=NOW - 300)
KUBELET_STOPPED = replace(STOPPED, name="kubelet")
SILENT = replace(ETCD, server=Unknown("127.0.0.1:2379: Connection refused"))
FULL = Space("/var/lib/etcd", 20 * GIB, 0, 1000, 900, device=2)


@dataclass(frozen=True)
class Case:
    """Facts, the titles of all errors in their order (without the host), and whether only a person can help."""

    facts: HostFacts
    errors: tuple[str, ...]
    blocked: bool = False
    start: tuple[str, ...] = ()


CASES: Mapping[str, Case] = {
    "containerd stopped": Case(
        replace(
            SICK,
            containerd=STOPPED,
            runtime=Endpoint(False, "/run/containerd/containerd.sock: Connection refused"),
            containers=Unknown("/run/containerd/containerd.sock: Connection refused"),
            etcd=SILENT,
        ),
        ("containerd is stopped: no container can be started, nor looked at",),
        start=("containerd",),
    ),
    "containerd and kubelet stopped": Case(
        replace(SICK, containerd=STOPPED, kubelet=KUBELET_STOPPED, etcd=SILENT),
        (
            "containerd is stopped: no container can be started, nor looked at",
            "kubelet is stopped: nothing starts pods, or restarts what ends",
        ),
        start=("containerd", "kubelet"),
    ),
    "containerd hangs": Case(
        replace(SICK, runtime=Endpoint(False, "no answer within 4 s"), containers=Unknown("no answer within 4 s")),
        ("containerd runs but does not answer: no answer within 4 s",),
    ),
    "kubelet crashes": Case(
        replace(
            SICK,
            kubelet=Unit(
                "kubelet",
                "activating",
                "auto-restart",
                "exit-code",
                1,
                said=('E1121 15:00:00.1 73 run.go:72] "command failed" err="unknown flag: --bogus"',),
            ),
        ),
        (
            (
                'kubelet fails (exit-code, status 1): "command failed" err="unknown flag: --bogus": '
                "nothing starts pods, or restarts what ends"
            ),
        ),
    ),
    "kubelet masked": Case(
        replace(SICK, kubelet=replace(KUBELET_STOPPED, enabled="masked")),
        ("kubelet is stopped and masked: nothing starts pods, or restarts what ends",),
        blocked=True,
    ),
    "etcd's disk full": Case(
        replace(SICK, spaces=(*HEALTHY.spaces, FULL), etcd=SILENT),
        ("the disk of /var/lib/etcd is full: 0 B of 20 GiB free",),
        blocked=True,
    ),
    "disk read-only": Case(
        replace(SICK, spaces=(replace(FULL, path="/etc/kubernetes", free=10 * GIB, read_only=True),)),
        ("the disk of /etc/kubernetes is read-only",),
        blocked=True,
    ),
    "no inodes": Case(
        replace(SICK, spaces=(replace(FULL, path="/var/lib/kubelet", free=10 * GIB, inodes_free=0),)),
        ("the disk of /var/lib/kubelet has no inodes left",),
        blocked=True,
    ),
    "clock ahead: certificates expired to it": Case(
        replace(SICK, taken=NOW + 9500 * HOUR, clock=Clock(9500 * HOUR, 0.2)),
        ("the clock is 396 days ahead: 2 certificates are expired to it",),
        blocked=True,
    ),
    "clock behind: certificates not yet valid to it": Case(
        replace(
            SICK,
            taken=NOW - 3 * HOUR,
            clock=Clock(-3 * HOUR, 0.2),
            certificates=(replace(APISERVER_CRT, not_before=NOW - HOUR),),
        ),
        ("the clock is 3 h behind: /etc/kubernetes/pki/apiserver.crt is not yet valid to it",),
        blocked=True,
    ),
    "certificate expired": Case(
        replace(SICK, certificates=(replace(APISERVER_CRT, not_after=NOW - HOUR),)),
        ("/etc/kubernetes/pki/apiserver.crt is expired",),
        blocked=True,
    ),
    "manifests/ gone": Case(
        replace(SICK, manifests=Manifests(False), etcd=replace(SILENT, manifest=False)),
        ("there is no folder /etc/kubernetes/manifests: the kubelet starts no static pod",),
        blocked=True,
    ),
    "etcd's manifest gone": Case(
        replace(SICK, manifests=Manifests(True), etcd=replace(SILENT, manifest=False)),
        ("etcd's manifest is gone from /etc/kubernetes/manifests: the kubelet starts no etcd",),
        blocked=True,
    ),
    "etcd's data lost": Case(
        replace(SICK, etcd=replace(SILENT, data="empty")),
        ("the data of etcd is gone: /var/lib/etcd is empty",),
        blocked=True,
    ),
    "etcd started anew without its data": Case(
        replace(SICK, etcd=replace(ETCD, server=replace(SERVER, has_cluster=False))),
        ("etcd was started without its data: it has none of the workloads that are checkpointed here",),
        blocked=True,
    ),
    "etcd crashes": Case(
        replace(
            SICK,
            etcd=SILENT,
            containers=(NO_ETCD,),
            etcd_containers=(
                Container(
                    "etcd-controller-1",
                    "kube-system",
                    "etcd",
                    "exited",
                    created=NOW - 9,
                    exit_code=1,
                    log=('{"level":"fatal","msg":"discovery failed","error":"bad certificate"}',),
                ),
            ),
        ),
        ("etcd exits with 1: discovery failed: bad certificate",),
    ),
    "etcd without a quorum": Case(
        replace(SICK, etcd=replace(ETCD, server=replace(SERVER, healthy=False, leader="", said="RAFT NO LEADER"))),
        ("etcd has no leader: 1 of 3 members answer, 2 are needed",),
    ),
    "etcd restarted without a quorum": Case(
        replace(SICK, etcd=replace(ETCD, server=EtcdServer(False, "RAFT NO LEADER"))),
        ("etcd has no leader: it waits for a majority of its members",),
    ),
    "etcd's quota used up": Case(
        replace(
            SICK,
            etcd=replace(
                ETCD,
                server=replace(
                    SERVER, healthy=False, db_size=2 * GIB, db_quota=2 * GIB, alarms=(Alarm("NOSPACE", "a1"),)
                ),
            ),
        ),
        ("etcd is full (2 GiB of 2 GiB) and refuses every write",),
    ),
    "etcd's data corrupt": Case(
        replace(SICK, etcd=replace(ETCD, server=replace(SERVER, healthy=False, alarms=(Alarm("CORRUPT", "a1"),)))),
        ("etcd raised the alarm CORRUPT: its data can't be trusted",),
        blocked=True,
    ),
    "bad flag": Case(
        replace(SICK, containers=(CRASHED,)),
        ("kube-apiserver exits with 1: Error: unknown flag: --nonsense (4 times so far)",),
    ),
    "bad flag of the parent while the copy serves": Case(
        replace(HEALTHY, containers=(CRASHED, RUNNING), workloads=kept(generation(3), active=3)),
        ("kube-apiserver exits with 1: Error: unknown flag: --nonsense (4 times so far)",),
    ),
    "killed for its memory": Case(
        replace(SICK, containers=(replace(CRASHED, exit_code=137, reason="OOMKilled", attempt=0, log=()),)),
        ("kube-apiserver was killed for using more memory than its limit",),
    ),
    "copy can't have the port": Case(
        replace(
            SICK,
            containers=(
                replace(CRASHED, copy=True, attempt=0, log=("E1121 15:00:00.1 1 x] listen: address already in use",)),
            ),
            workloads=kept(generation(3), active=3),
        ),
        ("the copy of kube-apiserver exits with 1: listen: address already in use",),
    ),
    "runs but is not ready": Case(
        replace(
            SICK,
            api=Endpoint(False, "HTTP 500: not ready: etcd", "10.0.0.1:6443"),
            containers=(replace(RUNNING, started=NOW - 300),),
        ),
        ("kube-apiserver has run for 5 min and does not serve yet: HTTP 500: not ready: etcd",),
    ),
    "the kubelet can't start it": Case(
        replace(
            SICK,
            complaints=(
                (
                    'E1121 15:00:00.1 1 pod_workers.go:1] "Error syncing pod, skipping" err="failed to '
                    '\\"StartContainer\\" for \\"kube-apiserver\\" with ErrImageNeverPull: \\"not there\\"" pod="x"'
                ),
            ),
        ),
        (
            (
                'the kubelet can\'t start kube-apiserver: failed to "StartContainer" for "kube-apiserver" with '
                'ErrImageNeverPull: "not there"'
            ),
        ),
    ),
    "after a power cut": Case(
        replace(SICK, booted=NOW - 20, containers=(replace(CRASHED, created=NOW - 500),)),
        ("no kube-apiserver runs on this machine (up for 20 s): nothing listens on port 6443",),
    ),
    "copy in place without its image": Case(
        replace(SICK, workloads=kept(generation(3), generation(4, missing=("registry/x:v1",)), active=4)),
        (
            (
                "the copy of kube-apiserver in place, generation 4, can't be trusted to start: "
                "image registry/x:v1 is not on this machine"
            ),
        ),
    ),
    "nothing to restore": Case(
        replace(
            SICK,
            containers=(CRASHED,),
            workloads=kept(generation(3, damage="manifest.json was changed"), generation(4, missing=("x:1", "y:1"))),
        ),
        (
            "kube-apiserver exits with 1: Error: unknown flag: --nonsense (4 times so far)",
            "there is no checkpoint of kube-apiserver that could be restored",
        ),
        blocked=True,
    ),
}


def look(*facts: HostFacts, api: bool = False) -> Diagnosis:
    """The diagnosis of controllers with these facts."""
    hosts = [Host(f"controller-{n}", f"10.0.0.{n}") for n in range(1, len(facts) + 1)]
    return diagnose([Examined(h, f) for h, f in zip(hosts, facts, strict=True)], ApiSeen(api, "connection refused"))


def errors(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The titles of the errors, in their order."""
    return tuple(f.title for f in diagnosis.findings if f.severity == "error")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cause(case: Case) -> None:
    """Each cause is told in these words, and what it explains isn't told as a cause."""
    seen = look(case.facts, api=case.facts.api == HEALTHY.api)
    assert errors(seen) == tuple(f"controller-1: {title}" for title in case.errors)
    assert bool(seen.blocked) is case.blocked
    assert seen.controllers[0].start == case.start
    assert not seen.healthy


def test_healthy() -> None:
    """On a healthy controller nothing is found, nothing would be started or restored."""
    seen = look(HEALTHY, api=True)
    assert seen.findings == ()
    assert seen.healthy
    assert (seen.controllers[0].start, seen.controllers[0].restore, seen.controllers[0].blocked) == ((), None, "")


def test_the_newest_usable_generation_would_be_restored() -> None:
    """Damaged ones and those without their image are passed over, and named."""
    seen = look(
        replace(
            SICK, workloads=kept(generation(2), generation(3, missing=("x:1",)), generation(4, damage="a was changed"))
        )
    )
    assert seen.controllers[0].restore == generation(2)
    titles = [f.title for f in seen.findings if f.id.startswith("checkpoint.")]
    assert titles == [
        "controller-1: generation 3 of kube-system/kube-apiserver can't be started: image x:1 is not on this machine",
        "controller-1: generation 4 of kube-system/kube-apiserver is damaged: a was changed",
    ]


def test_what_failed_before_is_passed_over_and_reported() -> None:
    """An older generation that hasn't failed would be restored; the newer is no good one, in place or not."""
    failed = generation(4, failure="did not stay up")
    seen = look(replace(SICK, workloads=kept(generation(3), failed)))
    assert seen.controllers[0].restore == generation(3) and not seen.blocked
    (found,) = (f for f in seen.findings if f.id == "checkpoint.failed")
    where = "controller-1: generation 4 of kube-system/kube-apiserver"
    assert found.title == f"{where} did not stay up when it was started: did not stay up"
    assert (found.severity, found.remedy) == ("warning", "Generation 3 (of 2026-11-21T10:00:00Z) is good.")
    seen = look(replace(SICK, workloads=kept(generation(3), failed, active=4)))
    assert errors(seen)[0] == (
        "controller-1: the copy of kube-apiserver in place, generation 4, can't be trusted to start: "
        "it has failed before (did not stay up)"
    )
    assert seen.controllers[0].restore == generation(3)


def test_when_all_have_failed_the_operator_is_told_what_to_do() -> None:
    """Nothing is restored and nothing is called good; the marks can be removed once the cause is fixed."""
    failed = tuple(generation(n, failure=f"cause {n}") for n in (3, 4))
    seen = look(replace(SICK, workloads=kept(*failed)))
    (found,) = (f for f in seen.findings if f.id == "checkpoint.all-failed")
    assert (found.severity, found.diagnosis) == ("error", "Generation 3: cause 3\nGeneration 4: cause 4")
    assert found.title == "controller-1: every checkpoint of kube-apiserver that could be started has failed before"
    assert found.remedy.startswith("Manual action required") and "/failed.json there" in found.remedy
    assert seen.controllers[0].restore is None and seen.blocked == found.title
    assert not any(") is good" in f.remedy for f in seen.findings)


def test_the_last_resort_of_the_checkpointer_gets_its_time() -> None:
    """Where all have failed and one is in place all the same, the recovery waits for it."""
    seen = look(replace(SICK, workloads=kept(generation(4, failure="x"), active=4)))
    assert any(f.id == "checkpoint.all-failed" for f in seen.findings)
    assert not seen.blocked


def test_unknown_marks_block_nothing_and_are_reported() -> None:
    """A damaged failed.json is not taken for "none has failed" in silence, nor does it keep the API away."""
    (workload,) = kept(generation(3), generation(4))
    seen = look(replace(SICK, workloads=(replace(workload, marks_unknown="failed.json can't be understood"),)))
    assert seen.controllers[0].restore == generation(4) and not seen.blocked
    (found,) = (f for f in seen.findings if f.severity == "unknown")
    assert (found.id, found.diagnosis) == ("checkpoint.marks-unknown", "failed.json can't be understood")


def test_the_remedy_for_having_nothing_fits_the_reason() -> None:
    """A whole generation lacks just its image, as kubeadm's manifests would: the image is what to bring."""

    def remedy(*generations: Generation) -> str:
        seen = look(replace(SICK, workloads=kept(*generations)))
        return next(f.remedy for f in seen.findings if f.id == "checkpoint.none")

    assert "images pull registry/x:v1`" in remedy(generation(3, missing=("registry/x:v1",)), generation(4, damage="x"))
    assert "/etc/kubernetes/upgrader/adopted" in remedy(generation(4, damage="x"))


def test_a_generation_may_be_restored_while_its_images_are_unknown() -> None:
    """With containerd down nobody knows of images: that is no reason to give up, as it will be started first."""
    assert (
        look(replace(SICK, workloads=kept(generation(3, missing=Unknown("down"))))).controllers[0].restore is not None
    )


def test_lost_data_with_a_backup_gives_the_steps() -> None:
    """The steps name the backup, the member and its address, keep the old folder, and nothing deletes anything."""
    lost = replace(
        SILENT,
        data="missing",
        flags={"name": "cp-1", "initial-advertise-peer-urls": "https://10.9.9.9:2380"},
        backups=(
            Backup("/var/backups/etcd/new.db", 5 << 20, NOW - HOUR),
            Backup("/root/old.db", 4 << 20, NOW - 99 * HOUR),
        ),
    )
    found = look(replace(SICK, etcd=lost)).findings[0]
    assert (
        "etcdutl snapshot restore /var/backups/etcd/new.db --data-dir /var/lib/etcd/restored --name cp-1 \\\n"
        "    --initial-cluster cp-1=https://10.9.9.9:2380 --initial-advertise-peer-urls https://10.9.9.9:2380"
        in found.remedy
    )
    assert "mv /var/lib/etcd/member /var/lib/etcd/member.lost" in found.remedy
    assert " rm " not in found.remedy
    assert "/root/old.db, 4 MiB" in found.diagnosis


def test_an_api_that_serves_an_empty_etcd_is_left_alone() -> None:
    """It answers, and knows nothing of the cluster: whatever were done through it would make that worse."""
    empty = replace(ETCD, server=replace(SERVER, has_cluster=False))
    seen = look(replace(HEALTHY, etcd=empty), api=True)
    assert seen.blocked == seen.findings[0].title
    assert not seen.healthy


def test_a_host_that_lost_both_manifest_and_data_still_has_etcd() -> None:
    """Its certificate says that a member belongs there; the steps don't move a manifest that isn't there."""
    certificate = replace(APISERVER_CRT, path=ETCD_CERTIFICATE)
    backups = (Backup("/root/a.db", 1, NOW),)
    lost = Etcd(False, "/var/lib/etcd", "empty", Unknown("refused"), backups=backups)
    seen = look(replace(SICK, etcd=lost, certificates=(certificate,)))
    assert [f.id for f in seen.findings if f.severity == "error"] == ["manifests.missing", "etcd.lost"]
    assert "mv /etc/kubernetes/manifests" not in seen.findings[1].remedy


def test_etcd_elsewhere_is_no_finding() -> None:
    """A controller without a member, of a cluster with an external etcd, lacks nothing."""
    elsewhere = Etcd(False, "/var/lib/etcd", "missing", Unknown("refused"))
    assert look(replace(HEALTHY, etcd=elsewhere), api=True).findings == ()


def test_lost_member_of_several_is_not_the_whole_cluster() -> None:
    """Where the others still have the data, restoring a backup would be wrong: the member joins anew."""
    seen = look(replace(SICK, etcd=replace(SILENT, data="empty")), HEALTHY, api=True)
    assert seen.findings[0].id == "etcd.member-lost"
    assert "snapshot restore" not in seen.findings[0].remedy
    assert not seen.blocked


def test_members_that_answer_are_counted_over_all_controllers() -> None:
    """Two of three members answer: the third is the one to bring back."""
    alone = replace(SERVER, healthy=False, leader="", said="RAFT NO LEADER")
    second = replace(alone, id="b2")
    seen = look(*(replace(SICK, etcd=replace(ETCD, server=server)) for server in (alone, second)))
    assert errors(seen)[0] == "controller-1: etcd has no leader: 2 of 3 members answer, 2 are needed"
    assert seen.findings[0].remedy == "Bring back: controller-3."


def test_an_etcd_that_does_not_say_what_it_stores_has_not_lost_it() -> None:
    """A member that answers for itself, and not for its keys, may have them all: nobody is told to restore a backup."""
    unsure = replace(SERVER, has_cluster=Unknown("no answer within 9 s"))
    assert look(replace(HEALTHY, etcd=replace(ETCD, server=unsure)), api=True).findings == ()


def test_unknown_is_neither_healthy_nor_broken() -> None:
    """A question without an answer is told as unknown; nothing is started or restored on it."""
    why = Unknown("no answer within 9 s")
    seen = look(
        replace(HEALTHY, kubelet=why, containers=why, workloads=why, api=why, spaces=(why,), manifests=why, booted=why)
    )
    assert {f.id for f in seen.findings if f.severity == "unknown"} == {
        "service.unknown",
        "disk.unknown",
        "manifests.unknown",
        "apiserver.unknown",
        "checkpoint.unknown",
    }
    controller = seen.controllers[0]
    assert (controller.serves, controller.start, controller.restore) == (None, (), None)
    assert not seen.healthy


def test_an_unreachable_controller_is_named_with_the_reason() -> None:
    """Without an answer over SSH there is nothing to go by: the reason is told, and the others go on."""
    gone = Examined(Host("controller-1", "10.0.0.1"), None, "controller-1 (root@10.0.0.1:22): No route to host")
    seen = diagnose([gone, Examined(Host("controller-2", "10.0.0.2"), SICK)], ApiSeen(False))
    assert seen.findings[0].title.endswith("No route to host")
    assert seen.controllers[0].blocked and not seen.blocked


def test_the_way_in_between_is_to_blame_when_all_serve() -> None:
    """Where every kube-apiserver serves, an API that doesn't answer is the network's or the load balancer's."""
    assert look(HEALTHY).findings[-1].id == "api.unreachable"


def test_a_machine_that_just_booted_may_fail_at_first() -> None:
    """The kubelet's first attempts before containerd is ready are no cause."""
    restarting = Unit("kubelet", "activating", "auto-restart", "exit-code", 1, restarts=2)
    seen = look(replace(SICK, booted=NOW - 5, kubelet=restarting))
    assert errors(seen) == ()
    assert "2 failed attempts" in seen.findings[0].title


def test_what_happened_long_ago_is_not_the_cause() -> None:
    """An exit of yesterday says nothing of today."""
    assert errors(look(replace(HEALTHY, containers=(replace(CRASHED, created=NOW - 24 * HOUR),)), api=True)) == ()


def test_an_expired_certificate_that_nothing_here_needs_is_a_warning() -> None:
    """The kubelet's own certificate doesn't keep static pods from running."""
    seen = look(replace(SICK, certificates=(replace(KUBELET_PEM, not_after=NOW - HOUR),), containers=(CRASHED,)))
    assert errors(seen) == (
        "controller-1: kube-apiserver exits with 1: Error: unknown flag: --nonsense (4 times so far)",
    )
    assert any(f.id == "certificates.expired" and f.severity == "warning" for f in seen.findings)
