"""Planned programs are tried on each controller before anything changes, and nothing of that stays."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.steps.trial.kubelets import API_SERVER, CONFIG_MAPS, CONTROLLERS, PODS, Kubelets, ended, plan, running
from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.model.finding import Finding, Severity
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.redaction.printable import printable
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.ports import Kind, KubeObject
from upgrader.steps.trial.harmless import NO_ETCD, NOWHERE
from upgrader.steps.trial.pod import LABELS
from upgrader.steps.trial.programs import planned_programs
from upgrader.steps.trial.step import TrialStep
from upgrader.steps.trial.trial import Trial

READ = ended(1, f'E1123 run.go:72] "command failed" err="open {NO_ETCD}: no such file or directory"')
REFUSED = ended(1, "Error: unknown flag: --nonsense")


def findings(kube: Kubelets, *manifests: str, notes: list[str] | None = None) -> tuple[Finding, ...]:
    """Of a trial; nothing of it is left."""
    said = [] if notes is None else notes
    found = Trial(kube, FakeClock(), CONTROLLERS).run(planned_programs(plan(*manifests)), said.append)
    assert not kube.list(PODS) and not kube.list(CONFIG_MAPS)
    return found


def apply(kube: Kubelets, skips: Skips = NO_SKIPS, severities: dict[str, Severity] | None = None) -> list[str]:
    """Apply the step; returns its notes."""
    notes: list[str] = []
    step = TrialStep.of(plan(), Trial(kube, FakeClock(), CONTROLLERS), severities or {}, skips)
    assert step is not None
    assert step.name == "trial"
    assert step.summary() == "flags and files validated by kube-apiserver v1.37.1"
    step.apply(notes.append)
    return notes


def refusal(status: int, message: str) -> ApiError:
    """An answer of the API server."""
    error = ApiError(message)
    error.status = status
    return error


def test_program_is_tried_on_each_controller() -> None:
    """Files differ between controllers. What it read there is counted, and nothing is found."""
    kube, notes = Kubelets(lambda _: READ), list[str]()
    assert findings(kube, notes=notes) == ()
    assert sorted(pod["spec"]["nodeName"] for pod in kube.pods()) == ["controller-1", "controller-2"]
    assert notes == ["2 of 2 programs have read their flags and files"]


def test_program_that_refuses_is_quoted() -> None:
    """One finding for all controllers where it says the same, one for each that says something else."""
    (found,) = findings(Kubelets(lambda _: REFUSED))
    assert (found.id, found.severity) == ("trial.refused", "error")
    assert found.title == "release app: kube-apiserver v1.37.1 rejects its flags or files"
    assert "On controller-1, controller-2: Error: unknown flag: --nonsense" in found.diagnosis
    kube = Kubelets(lambda pod: REFUSED if pod["spec"]["nodeName"] == "controller-2" else READ)
    (found,) = findings(kube)
    assert "On controller-2: Error" in found.diagnosis


def test_words_come_from_the_log_where_there_is_one() -> None:
    """A pod's status has only the last 80 lines, 2 KiB."""
    kube = Kubelets(lambda _: REFUSED)
    log = "I1123 starting\nError: unknown flag: --of-the-log\nsee --help"
    kube.logs = lambda *_, **__: log  # type: ignore[method-assign]
    assert "Error: unknown flag: --of-the-log\nsee --help" in findings(kube)[0].diagnosis


SECRET = "Zk9-" + "3vQ7" * 10
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *["MIIE3vQ7hunter"] * 20, "-----END PRIVATE KEY-----", "ended"])


@pytest.mark.parametrize("log", [f"Error: {'x' * 1470} {SECRET}", KEY])
def test_secret_is_masked_before_words_are_cut(log: str) -> None:
    """What was cut in the middle of a secret is not known as one any more."""
    KNOWN.learn([SECRET])
    kube = Kubelets(lambda _: REFUSED)
    kube.logs = lambda *_, **__: log  # type: ignore[method-assign]
    assert "3vQ7" not in printable(findings(kube)[0].diagnosis)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Pending"}, "after 120 s: its pod has not started"),
        (running(), "after 120 s: it is still running"),
        ({"phase": "Failed", "reason": "OutOfpods"}, "OutOfpods: the kubelet gave no reason"),
        (ended(137, reason="OOMKilled"), "it was killed (OOMKilled)"),
        (ended(0, reason="Completed"), "it exited without an error message"),
        (
            {
                "containerStatuses": [
                    {"name": "trial", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no image"}}}
                ]
            },
            "ErrImageNeverPull: no image",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "trial", "state": {"waiting": {"reason": "ErrImagePull", "message": "no way"}}}
                ]
            },
            "after 120 s: ErrImagePull: no way",
        ),
    ],
)
def test_what_can_not_be_tried_is_unknown(status: dict[str, Any], words: str) -> None:
    """It is never taken for read, and never for refused."""
    (found,) = findings(Kubelets(lambda _: status))
    assert (found.id, found.severity) == ("trial.unknown", "unknown")
    assert words in found.diagnosis and found.remedy


def test_wait_for_the_pods_is_told() -> None:
    """It may take two minutes, of which nothing else is said."""
    notes: list[str] = []
    findings(Kubelets(lambda _: {"phase": "Pending"}), notes=notes)
    assert notes[0].startswith("waiting up to 120 s for the trial pods: upgrader-trial-")


def test_warnings_of_a_pod_that_does_not_start_are_told() -> None:
    """Such as a volume that isn't there: its status says nothing of that."""
    kube = Kubelets(lambda _: {"phase": "Pending"})
    listed = kube.list

    def events(kind: Kind, *arguments: Any, **options: Any) -> tuple[KubeObject, ...]:
        if kind.plural == "events":
            return ({"type": "Normal", "message": "x"}, {"type": "Warning", "message": "hostPath type check failed"})
        return listed(kind, *arguments, **options)

    kube.list = events  # type: ignore[method-assign]
    assert "hostPath type check failed" in findings(kube)[0].diagnosis


def test_program_that_does_not_exist_in_the_image_is_refused() -> None:
    """The runtime's words say so."""
    (found,) = findings(Kubelets(lambda _: ended(128, "exec: not found", reason="StartError")))
    assert found.id == "trial.refused" and "exec: not found" in found.diagnosis


def test_program_that_was_silent_is_refused() -> None:
    """Its exit code is all that there is."""
    (found,) = findings(Kubelets(lambda _: ended(3)))
    assert "it exited with 3, without output" in found.diagnosis


def test_controller_manager_gets_through_while_it_runs() -> None:
    """It would look for its API for ever."""
    manifest = API_SERVER.replace("kube-apiserver", "kube-controller-manager")
    kube = Kubelets(lambda _: running())
    kube.logs = lambda *_, **__: f"dial tcp {NOWHERE}: connect: connection refused"  # type: ignore[method-assign]
    assert findings(kube, manifest) == ()


def test_scheduler_gets_through_by_its_exit_code() -> None:
    """It has written its configuration then."""
    assert findings(Kubelets(lambda _: ended(0)), API_SERVER.replace("kube-apiserver", "kube-scheduler")) == ()


def test_container_that_a_webhook_adds_is_not_the_program() -> None:
    """A kubelet reports containers by name, so that another one may come first."""
    agent = {"name": "agent", "state": {"terminated": {"exitCode": 1, "message": "Error: no token"}}}
    status = {**READ, "containerStatuses": [agent, *READ["containerStatuses"]]}
    assert findings(Kubelets(lambda _: status)) == ()


def test_pod_that_is_deleted_by_others_is_unknown() -> None:
    """Nobody knows what became of it."""

    class Deleting(Kubelets):
        def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
            return None if kind == PODS else super().get(kind, name, namespace)

    kube = Deleting(lambda _: READ)
    assert "its pod kube-system/upgrader-trial-" in findings(kube)[0].diagnosis


@pytest.mark.parametrize("plural", ["pods", "configmaps"])
def test_what_can_not_be_created_is_unknown(plural: str) -> None:
    """With the API server's words; what was created meanwhile goes."""
    kube = Kubelets(lambda _: READ)
    kube.refuses[plural] = refusal(403, "a quota is used up")
    (found,) = findings(kube)
    assert found.id == "trial.unknown"
    assert "its pod could not be created: a quota is used up" in found.diagnosis


def test_creation_is_tried_again_where_the_api_may_answer_otherwise() -> None:
    """A webhook or etcd is away for a moment."""
    kube = Kubelets(lambda _: READ)
    attempts: list[str] = []
    create = kube.create

    def once_unwell(*arguments: Any, **options: Any) -> KubeObject:
        attempts.append("create")
        if len(attempts) == 1:
            raise ApiUnavailable("no answer")
        done = create(*arguments, **options)
        if len(attempts) == 2:
            raise refusal(500, "the answer was lost")
        return done

    kube.create = once_unwell  # type: ignore[method-assign]
    assert findings(kube) == ()


def test_controller_that_can_not_run_it_is_left_out() -> None:
    """One that isn't Ready, or isn't there; where none is left, that is noted."""
    kube, notes = Kubelets(lambda _: READ), list[str]()
    kube.add_node("controller-2", ready="False")
    assert findings(kube, notes=notes) == ()
    assert [pod["spec"]["nodeName"] for pod in kube.pods()] == ["controller-1"]
    kube.add_node("controller-1", ready="Unknown")
    findings(kube, notes=notes)
    assert "no Ready controller matches it" in notes[-2]


def test_what_a_killed_run_left_is_removed() -> None:
    """Before the trial; what can't be removed is noted."""
    kube, notes = Kubelets(lambda _: READ), list[str]()
    for kind in (PODS, CONFIG_MAPS):
        kube.put(kind, {"metadata": {"name": "left", "labels": LABELS, "namespace": "apps"}}, "apps")
    kube.put(PODS, {"metadata": {"name": "of-others", "namespace": "apps"}}, "apps")
    Trial(kube, FakeClock(), CONTROLLERS).run((), notes.append)
    assert [pod["metadata"]["name"] for pod in kube.list(PODS)] == ["of-others"]
    assert not kube.list(CONFIG_MAPS)
    kube.put(PODS, {"metadata": {"name": "left", "labels": LABELS, "namespace": "apps"}}, "apps")
    deleted = refusal(500, "not now")

    def refuse(*_: Any) -> None:
        raise deleted

    kube.delete = refuse  # type: ignore[method-assign, assignment]
    Trial(kube, FakeClock(), CONTROLLERS).run((), notes.append)
    assert "pods apps/left could not be deleted; the next run deletes it: not now" in notes


@pytest.mark.parametrize("error", [refusal(500, "etcd has no leader"), ApiUnavailable("no answer")])
def test_api_that_is_away_for_a_moment_has_nothing_left_behind(error: ApiError) -> None:
    """The copy of a Secret would stay until the next run that starts something anew, which may be in months."""
    kube = Kubelets(lambda _: READ)
    deleted, moments = kube.delete, [error] * 3

    def delete(kind: Kind, name: str, namespace: str = "", **options: bool) -> None:
        if moments:
            raise moments.pop()
        deleted(kind, name, namespace, **options)

    kube.delete = delete  # type: ignore[method-assign]
    assert findings(kube) == ()


def test_who_may_read_only_the_programs_namespace_can_try_them() -> None:
    """Nobody needs the right to list all Secrets of a cluster for a run."""
    kube = Kubelets(lambda _: READ)
    kube.put(PODS, {"metadata": {"name": "left", "labels": LABELS, "namespace": "kube-system"}}, "kube-system")
    listed = kube.list

    def confined(kind: Kind, namespace: str = "", **options: Any) -> tuple[KubeObject, ...]:
        if not namespace:
            raise refusal(403, f"cannot list {kind.plural} at the cluster scope")
        return listed(kind, namespace, **options)

    kube.list = confined  # type: ignore[method-assign]
    notes: list[str] = []
    assert Trial(kube, FakeClock(), CONTROLLERS).run(planned_programs(plan()), notes.append) == ()
    assert not listed(PODS) and not listed(CONFIG_MAPS)
    kube.list = lambda *_, **__: (_ for _ in ()).throw(refusal(500, "etcd"))  # type: ignore[method-assign]
    with pytest.raises(ApiError, match="etcd"):
        Trial(kube, FakeClock(), CONTROLLERS).run((), notes.append)


@pytest.mark.parametrize("status", [0, 403, 500])
def test_image_is_pulled_as_by_the_planned_service_account(status: int) -> None:
    """A private registry's credentials are often the ServiceAccount's; who may not read it does without them."""
    kube = Kubelets(lambda _: READ)
    accounts = Kind("v1", "serviceaccounts")
    kube.put(accounts, {"metadata": {"name": "admin"}, "imagePullSecrets": [{"name": "registry"}]}, "kube-system")
    found = kube.get

    def get(kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        if kind == accounts and status:
            raise refusal(status, "no account")
        return found(kind, name, namespace)

    kube.get = get  # type: ignore[method-assign]
    said = [each.diagnosis for each in findings(kube)]
    if status == 500:
        assert "its pod could not be created: no account" in said[0]
    else:
        assert not said and {str(pod["spec"].get("imagePullSecrets")) for pod in kube.pods()} == {
            str(None if status else [{"name": "registry"}])
        }
    no_account = API_SERVER.replace("serviceAccountName: admin", "hostIPC: false")
    assert status == 500 or findings(kube, no_account) == ()


def test_step_fails_with_the_findings_words() -> None:
    """And says how to run in spite of it."""
    with pytest.raises(StepFailed, match=r"trial\.refused: release app: (.|\n)* --nonsense") as caught:
        apply(Kubelets(lambda _: REFUSED))
    assert "--skip trial.refused --reason TEXT" in caught.value.remedy


def test_step_passes_in_spite_of_a_skipped_finding() -> None:
    """The journal's note has the reason, as it has a finding that a policy has made milder."""
    notes = apply(Kubelets(lambda _: REFUSED), Skips(("trial.refused",), "I know"))
    assert notes[-1].startswith("trial.refused (skipped: I know): release app: kube-apiserver v1.37.1 rejects")
    notes = apply(Kubelets(lambda _: REFUSED), severities={"trial.refused": "warning"})
    assert notes[-1].startswith("trial.refused (warning): ")


def test_plan_that_starts_no_program_has_no_step() -> None:
    """Pods that stay as they are have read their flags already; a shell's own command line is nobody's flags."""
    trial = Trial(Kubelets(lambda _: READ), FakeClock(), CONTROLLERS)
    assert TrialStep.of(plan(before=API_SERVER), trial, {}, NO_SKIPS) is None
    shell = API_SERVER.replace("kube-apiserver]", "run]")
    assert TrialStep.of(plan(shell), trial, {}, NO_SKIPS) is None
