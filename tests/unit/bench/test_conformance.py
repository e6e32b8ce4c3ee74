"""Which of Kubernetes' specs are run, what is said of each, and what the lab stands in for."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.conformance.images import KINDS, names_of
from bench.conformance.page import page
from bench.conformance.record import merged, ours, recorded
from bench.conformance.results import Result, explained, missing_images, overlapping, read_report
from bench.conformance.specs import (
    Chosen,
    Spec,
    choose,
    conformance_specs,
    focus_of,
    left_out,
    remember_images,
    upgrade_tests_to_run,
)
from bench.conformance.stand_ins import FINALIZER, answer_for, volume
from tests.unit.bench.tables import row

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
PODS = "[sig-node] Pods should be updated [Conformance]"
TAINTS = "[sig-node] Taints evict pods [Serial] [Conformance]"
NEW = "[sig-node] Pods have something new [Conformance]"
FRIEND = "[sig-cli] Kubectl shows a nautilus (twice) [Conformance]"
SPECS = (Spec(PODS, "v1.9"), Spec(TAINTS, "v1.18"), Spec(NEW, "v1.37"), Spec(FRIEND, "v1.9"))


def result(name: str, state: str = "passed", *, at: float = 0, seconds: float = 10, image: str = "") -> Result:
    """A spec that began `at` seconds after noon."""
    begun = NOON + timedelta(seconds=at)
    message = "" if state == "passed" else "it did <not> work\nin detail"
    return Result(name, state, seconds, begun, begun + timedelta(seconds=seconds), message, image)


def reported(name: str, state: str, **more: Any) -> dict[str, Any]:
    """A spec as ginkgo reports it."""
    *containers, leaf = name.split(" ", 2)
    times = {
        "StartTime": "2026-01-02T12:00:00.123456789Z",
        "EndTime": "2026-01-02T12:00:05.5Z",
        "RunTime": 5_400_000_000,
    }
    return {
        "ContainerHierarchyTexts": containers,
        "LeafNodeText": leaf,
        "LeafNodeType": "It",
        "State": state,
        **times,
        **more,
    }


def report(*specs: dict[str, Any]) -> str:
    """A report of one suite."""
    return json.dumps([{"SpecReports": list(specs)}])


def test_a_spec_belongs_to_conformance_since_the_first_release_that_is_named() -> None:
    """Upstream appends a release whenever a spec changes, in any order."""
    text = "- {codename: a, release: 'v1.18, v1.9', file: x}\n- {codename: b, release: v1.37, file: x}\n"
    assert conformance_specs(text) == (Spec("a", "v1.9"), Spec("b", "v1.37"))


def test_after_an_upgrade_only_missing_images_leave_a_spec_out() -> None:
    """Serial specs, and those of the new version, are run; what is left out has the image's name."""
    chosen = choose(SPECS, {FRIEND: "nautilus:1.8"}, kubelet="v1.36.3")
    assert chosen.run == (PODS, TAINTS, NEW)
    assert chosen.left_out == {FRIEND: "the lab doesn't have the image nautilus:1.8"}


def test_during_a_run_specs_that_need_the_cluster_for_themselves_are_left_out() -> None:
    """So are those that the old control plane can't pass yet; each with its reason."""
    chosen = choose(SPECS, {}, kubelet="v1.36.3", during=True, oldest="v1.36.3")
    assert chosen.run == (PODS, FRIEND)
    assert "[Serial]" in chosen.left_out[TAINTS]
    assert "since v1.37, and the run begins at v1.36.3" in chosen.left_out[NEW]


def test_a_spec_that_the_lab_cannot_run_is_left_out_in_every_way() -> None:
    """For the reason that was found out, and not as one that nobody asked for."""
    reasons = {PODS: "needs a registry to pull from, which the lab doesn't have"}
    for during in (False, True):
        chosen = choose(SPECS, {}, kubelet="v1.36.3", reasons=reasons, during=during, oldest="v1.36.3")
        assert PODS not in chosen.run and chosen.left_out[PODS] == reasons[PODS]
        assert chosen.not_asked_for == 0


@pytest.mark.parametrize(("kubelet", "run"), [("v1.36.3", False), ("v1.37.1", True), ("v1.40.0", True)])
def test_a_spec_of_a_newer_kubelet_is_left_out_where_kubelets_were_not_upgraded(kubelet: str, run: bool) -> None:
    """A run leaves kubelets alone unless it is told to: what only a new one can do says nothing of the run."""
    name = "[sig-auth] Bundles are mounted [MinimumKubeletVersion:1.37] [Conformance]"
    chosen = choose([Spec(name, "v1.37")], {}, kubelet=kubelet)
    assert (chosen.run == (name,)) is run
    assert run or "kubelets of v1.37 are needed" in chosen.left_out[name]


def test_what_was_not_asked_for_is_not_left_out() -> None:
    """A part of the suite is no excuse for the rest: that is counted by itself."""
    chosen = choose(SPECS, {FRIEND: "nautilus:1.8"}, kubelet="v1.36.3", focus="sig-node.*Pods")
    assert (chosen.run, chosen.left_out, chosen.not_asked_for) == ((PODS, NEW), {}, 2)


@pytest.mark.parametrize("name", [PODS, FRIEND])
def test_the_focus_matches_the_named_specs_and_no_other(name: str) -> None:
    """Brackets and parentheses are text, and a name that is the beginning of another one doesn't bring that."""
    focus = focus_of([name])
    assert re.search(focus, f"Kubernetes e2e suite {name}")
    assert not re.search(focus, f"Kubernetes e2e suite {name} with more")
    assert not re.search(focus, f"Kubernetes e2e suite {TAINTS}")


def test_results_are_read_by_name() -> None:
    """Skipped specs of the whole suite have no place in the results; Go's nanoseconds are read."""
    (found,) = read_report(report(reported(PODS, "passed"), reported(TAINTS, "skipped")), [PODS])
    assert (found.name, found.state, found.seconds) == (PODS, "passed", 5.4)
    assert found.ended - found.begun == timedelta(seconds=5, microseconds=376544)


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted", "aborted", "something new"])
def test_whatever_is_not_known_to_be_good_has_failed(state: str) -> None:
    """A spec that timed out or was interrupted, or has a state of a later ginkgo, isn't counted as passed."""
    (found,) = read_report(report(reported(PODS, state)), [PODS])
    assert found.failed


def test_a_spec_without_a_result_is_an_error() -> None:
    """A suite that forgot a spec, such as one that was renamed, must not look as if all had passed."""
    with pytest.raises(RuntimeError, match=r"1 specs have no result.*Taints"):
        read_report(report(reported(PODS, "passed")), [PODS, TAINTS])


def test_of_a_suite_that_was_stopped_only_finished_specs_count() -> None:
    """A spec that had not begun is neither passed nor skipped by itself, and an interrupted one hasn't failed."""
    never = {"EndTime": "0001-01-01T00:00:00Z", "RunTime": 0}
    specs = [
        reported(PODS, "passed"),
        reported(TAINTS, "skipped", **never),
        reported(NEW, "interrupted"),
        reported(FRIEND, "failed"),
        reported("[sig-node] It skips itself", "skipped"),
    ]
    names = [PODS, TAINTS, NEW, FRIEND, "[sig-node] It skips itself"]
    found = read_report(report(*specs), names, stopped=True)
    assert [each.name for each in found] == [PODS, FRIEND, "[sig-node] It skips itself"]
    assert [each.name for each in read_report(report(*specs), names) if each.failed] == [NEW, FRIEND]


def test_a_suite_that_fails_before_its_specs_is_an_error() -> None:
    """Where nodes aren't Ready, all specs are skipped: that is not a result of theirs."""
    before = {"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no node is Ready"}}
    with pytest.raises(RuntimeError, match=r"SynchronizedBeforeSuite failed.*no node is Ready"):
        read_report(report(before, reported(PODS, "skipped")), [PODS])


def test_the_missing_image_is_read_from_what_the_spec_printed() -> None:
    """The kubelet's event names it; a spec that passed, or failed of something else, needs none."""
    event = 'Event: Failed to pull image "registry.k8s.io/e2e-test-images/nautilus:1.8": not found'
    text = report(
        reported(FRIEND, "failed", CapturedGinkgoWriterOutput=event),
        reported(PODS, "failed"),
        reported(TAINTS, "passed", CapturedGinkgoWriterOutput=event),
    )
    found = missing_images(read_report(text, [FRIEND, PODS, TAINTS]))
    assert found == {FRIEND: "registry.k8s.io/e2e-test-images/nautilus:1.8"}


def test_learned_images_are_added_to_the_known_ones(tmp_path: Path) -> None:
    """What was known stays, and so do the reasons for upgrade tests."""
    file = tmp_path / "left_out.json"
    file.write_text(json.dumps({"images": {"b": "x:1"}, "upgrade_tests": {"c": "why"}}))
    remember_images({"a": "y:1"}, file)
    assert json.loads(file.read_text()) == {"images": {"a": "y:1", "b": "x:1"}, "upgrade_tests": {"c": "why"}}


def test_what_is_left_out_lacks_an_image_that_is_not_made_here() -> None:
    """Nobody can leave a spec out whose image the lab has."""
    for name, image in left_out()["images"].items():
        assert "[Conformance]" in name
        assert image.rpartition(":")[0].rpartition("/")[2] not in (*KINDS, "pause")


def test_reasons_and_causes_are_those_of_conformance_specs() -> None:
    """A name with a mistake in it would leave nothing out, and explain nothing."""
    known = left_out()
    assert all("[Conformance]" in name for name in (*known["specs"], *known["remarks"]))
    assert all(why.startswith("the lab ") for why in known["specs"].values())


def test_an_upgrade_test_is_left_out_by_its_whole_name() -> None:
    """A reason for `etcd-upgrade` is none for another test whose name ends like it."""
    names = ("Upgrade tests etcd-upgrade holds", "Upgrade tests [sig-apps] my-etcd-upgrade holds")
    chosen = upgrade_tests_to_run(names, {"etcd-upgrade": "needs an image"})
    assert chosen == Chosen(names[1:], {names[0]: "needs an image"}, 0)


def test_images_are_known_by_the_last_part_of_their_repository() -> None:
    """Under any registry and tag, but not by a part of a name."""
    listed = ("registry.k8s.io/e2e-test-images/agnhost:2.66.1", "other.example:5000/agnhost:2.55", "x/agnhost-2:1")
    assert names_of("agnhost", listed) == listed[:2]


def test_specs_at_work_during_the_run_are_those_whose_time_overlaps() -> None:
    """One that ended before, or began after, says nothing of the run."""
    specs = [result("before", at=0), result("into", at=15), result("within", at=30), result("after", at=120)]
    spans = [(NOON + timedelta(seconds=begin), NOON + timedelta(seconds=end)) for begin, end in ((20, 35), (60, 100))]
    assert [each.name for each in overlapping(specs, spans)] == ["into", "within"]
    assert overlapping(specs, []) == ()


@pytest.mark.parametrize(
    ("again", "without_us", "is_ours", "words"),
    [
        ("failed", "failed", False, "fails as well on kubeadm's own cluster"),
        ("passed", "failed", False, "fails as well on kubeadm's own cluster"),
        ("failed", "passed", True, "fails here again, and passes on a cluster that upgrader never touched"),
        ("passed", "passed", True, "passes the second time"),
        ("", "passed", True, "passes on a cluster that upgrader never touched"),
        ("failed", "", True, "not explained"),
        ("", "", True, "not explained"),
    ],
)
def test_only_a_failure_without_us_is_not_ours(again: str, without_us: str, is_ours: bool, words: str) -> None:
    """What isn't known to fail on a cluster that was never touched counts against upgrader."""
    second = [result(PODS, again)] if again else []
    plain = [result(PODS, without_us)] if without_us else []
    found_ours, why = explained([result(PODS, "failed")], second, plain)[PODS]
    assert found_ours is is_ours
    assert words in why


def _record(date: str, *results: Result, left: dict[str, str] | None = None, **more: Any) -> Any:
    command = {
        "date": date,
        "command": "conformance",
        "from": "v1.36.3",
        "cores": 2,
        "seconds": 120,
        "focus": "",
        **more,
    }
    chosen = Chosen(tuple(each.name for each in results), left or {}, 10)
    return recorded(command, chosen, results, {})


def test_a_part_that_is_run_again_replaces_its_own_results_alone() -> None:
    """A focused run doesn't forget the whole one; a command of which nothing is left isn't shown any more."""
    whole = _record("1", result(PODS), result(TAINTS, "failed"))
    part = _record("2", result(TAINTS))
    both = merged(whole, part)
    assert {name: spec["state"] for name, spec in both["specs"].items()} == {PODS: "passed", TAINTS: "passed"}
    assert [command["date"] for command in both["commands"]] == ["1", "2"]
    assert [command["date"] for command in merged(both, _record("3", result(PODS)))["commands"]] == ["2", "3"]


def test_a_record_that_is_written_again_is_the_same_command() -> None:
    """First without, then with what explains its failures."""
    command = {"date": "1", "command": "c", "from": "v1.36.3", "cores": 2, "seconds": 60, "focus": ""}
    chosen, results = Chosen((PODS,)), [result(PODS, "failed")]
    first = recorded(command, chosen, results, {})
    both = merged(first, recorded(command, chosen, results, {PODS: (False, "fails without us")}))
    assert len(both["commands"]) == 1
    assert (ours(first), ours(both)) == ([PODS], [])


def test_a_spec_is_either_run_or_left_out() -> None:
    """One whose image has turned out to be missing loses its result, and the other way round."""
    failed = _record("1", result(FRIEND, "failed"), result(PODS))
    learned = merged(failed, _record("2", result(PODS), left={FRIEND: "needs an image"}))
    assert FRIEND not in learned["specs"]
    assert FRIEND not in merged(learned, _record("3", result(FRIEND)))["left_out"]


def test_a_failure_without_an_explanation_is_ours() -> None:
    """`--no-explain` doesn't turn a failure into somebody else's."""
    assert ours(_record("1", result(PODS, "failed"), result(TAINTS))) == [PODS]


def test_the_page_counts_what_passed_failed_and_was_not_run() -> None:
    """Each number is in its column, each failed spec is named, and those left out are counted by the reason."""
    after = _record("2026-01-02 12:00", result(PODS), result(TAINTS, "failed"), left={FRIEND: "needs the image x"})
    text = page({"v1.37.1": {"after": after}}, {TAINTS: "The chart"})
    found = row(text, "After the upgrade")
    assert [found[name] for name in ("specs", "passed", "failed", "left out", "not run")] == [
        "13",
        "1",
        "1",
        "1",
        "10",
    ]
    assert f"- `{TAINTS}`:\n  not explained. Its message: it did &lt;not> work in detail. **Cause:** The chart." in text
    assert "1 left out: needs the image x." in text and FRIEND not in text
    assert "2026-01-02 12:00, 2 cores, 2 min: from v1.36.3" in text


def test_the_page_says_which_specs_met_the_run() -> None:
    """A spec that passed before the run began is no proof, and the page shows how the run ended."""
    command = {"date": "1", "command": "c", "from": "v1.36.3", "cores": 2, "seconds": 60, "focus": ""}
    command["changes"] = [
        {"what": what, "seconds": seconds, "exit_code": code, "refused": refused}
        for what, seconds, code, refused in (("run", 80, 0, 2), ("rollback", 30.2, 0, 0), ("run", 88, 4, 0))
    ]
    results = [result(PODS), result(TAINTS)]
    record = recorded(command, Chosen((PODS, TAINTS)), results, {}, results[:1])
    text = page({"v1.37.1": {"during": record}}, {})
    text = " ".join(text.split())
    assert "Passed: sig-node 2 of 2 (during: 1 of 1). *(during: N of M)* counts the specs that overlapped" in text
    assert "2 × `upgrader run`, 84 s (median), exit code 0, 4" in text
    assert "1 × `upgrader rollback`, 30 s (median), exit code 0" in text
    assert "before that, checks refused it 2 times" in text


def test_a_focus_is_told_without_its_regular_expression() -> None:
    """The page says that only some specs were run; which, the command in its JSON says."""
    focus = f"sig-(cli|{'api-machinery|' * 12}node)"
    record = {**_record("1", result(PODS))}
    command = f"python -m bench.conformance after --focus '{focus}'"
    record["commands"] = [{**record["commands"][0], "focus": focus, "command": command}]
    text = page({"v1.37.1": {"after": record}}, {})
    assert "only specs that match its `--focus`" in text and command not in text


def _service(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "one", **more.pop("metadata", {})},
        "spec": {"type": "LoadBalancer"},
        **more,
    }


def test_a_load_balancer_gets_an_address_once_and_is_let_go() -> None:
    """As a cloud's controller does; other Services, and other finalizers, are left alone."""
    ingress = {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}
    assert answer_for(_service(), "10.0.0.9") == ({"finalizers": [FINALIZER]}, ingress)
    served = _service(metadata={"finalizers": [FINALIZER]}, status=ingress)
    assert answer_for(served, "10.0.0.9") == ({}, {})
    going = _service(metadata={"finalizers": ["other", FINALIZER], "deletionTimestamp": "now"}, status=ingress)
    assert answer_for(going, "10.0.0.9") == ({"finalizers": ["other"]}, {})
    assert answer_for({"metadata": {"name": "a", "namespace": "b"}, "spec": {"type": "ClusterIP"}}, "x") == ({}, {})


def test_a_claim_of_one_node_stays_there() -> None:
    """A volume is on one node's disk: a pod that is started anew must come back to its data."""
    terms = volume(3, "worker-1")["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["worker-1"]
    assert "storageClassName" not in volume(3, "worker-1")["spec"]
