"""What messages say of a campaign: of many clusters at once in one, and nothing of others that could do harm."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import pytest

from testkit.fleet_campaigns import BEGIN, HOSTILE, TARGET, campaign_of
from upgrader.fleet.decide import Decision, Wait, decide
from upgrader.fleet.events import (
    CampaignEvent,
    CampaignStarted,
    ClusterChecked,
    ClusterEnded,
    ClusterInputs,
    ClusterSkipped,
    ClusterStarting,
    InputsApproved,
    Outcome,
    Pins,
    Problem,
    RetryRequested,
    SoakGateChecked,
)
from upgrader.fleet.reports.news import CampaignNews, Told
from upgrader.fleet.state import fold
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.reporting.observability.messages import Message, payload

FLEET = campaign_of(500).status.fleet
NAMES = [each.name for each in FLEET.members["production"]]
STARTED = CampaignStarted(
    "20261130T210000-fleet-v1.37.1",
    TARGET,
    Pins("1", "c", "p"),
    tuple(ClusterInputs(each.name, "d") for each in FLEET.clusters),
    "ann",
)


def take(news: CampaignNews, events: Iterable[CampaignEvent], told: int = 0) -> None:
    """Have it take events, as a coordinator reads them."""
    for event in events:
        before = news.state
        news.take(event, before, fold([(BEGIN, event)], before), told)


def news_of(events: Sequence[CampaignEvent], *, after: Sequence[CampaignEvent] = ()) -> Iterator[Message]:
    """The messages about these events; people know of the campaign, and of what was `after` its start."""
    news, known = CampaignNews(FLEET), [STARTED, *after]
    take(news, (*known, *events), len(known))
    return iter(news.messages(Decision(stages={each.name: Wait("") for each in FLEET.stages}), Told(len(known)))[0])


def ended(name: str, reason: str, outcome: Outcome = "rolled-back", cause: str = "") -> Iterator[CampaignEvent]:
    yield ClusterStarting(name, 1)
    yield ClusterEnded(name, 1, outcome, 60.0, "run-1", cause, reason)


def test_hundreds_of_clusters_are_one_message() -> None:
    """All that begin make one, and all that fail in the same way another one, with how many, and the first few."""
    begun, message = news_of([event for name in NAMES for event in ended(name, f"{name}: no quorum of etcd-{name}")])
    assert begun.text == "stage production has started: 449 clusters, 179 at a time"
    first = NAMES[0]
    assert message.text == (
        f"449 clusters were rolled back ({', '.join(NAMES[:3])} and 446 more): {first}: no quorum of etcd-{first}"
    )
    assert (message.topic, message.fields["Count"], message.fields["Stage"]) == ("rollback", "449", "production")
    assert message.fields["Remedy"] == "Fix the cause, then: upgrader fleet retry CLUSTER"


def test_causes_are_told_apart() -> None:
    """The most frequent one first, each with its clusters; the fourth is only counted."""
    reasons = ["disk is full", "no quorum", "no quorum", "timed out", "bad flag", "disk is full", "disk is full"]
    _, message = news_of(
        [event for name, why in zip(NAMES, reasons, strict=False) for event in ended(name, why, "broken")]
    )
    a, b, c, d, _, f, g = NAMES[:7]
    assert message.text == (
        f"7 clusters require manual action: {a}, {f}, {g}: disk is full; {b}, {c}: no quorum; {d}: timed out; 1 more, "
        "for other reasons"
    )


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ("unreachable", "is unreachable: why"),
        ("identity", "waits for an operator: why"),
        ("silent", "has a run that may have stopped: why"),
    ],
)
def test_problem_comes_once_for_each_attempt(problem: Problem, said: str) -> None:
    """A cluster that has it now and then is told of once, also by the next coordinator; after another run, again."""
    name = NAMES[0]
    has, has_not = ClusterChecked(name, problem, "why"), ClusterChecked(name, "", "")
    (message,) = news_of([has, has_not, has])
    assert message.text == f"cluster {name} {said}" and message.topic == "failure"
    assert list(news_of([has_not, has], after=[has])) == []
    (message,) = news_of([has], after=[has, has_not, *ended(name, "gate")])
    assert message.text.endswith(said)


def test_interrupted_run_is_told_of_when_it_is_not_resumed() -> None:
    """What goes on by itself needs no one."""
    name, events = NAMES[0], list[CampaignEvent]()
    for attempt in range(1, 5):
        assert not [each for each in news_of(events) if each.topic == "failure"]
        events += [ClusterStarting(name, attempt, attempt > 1)]
        events += [ClusterEnded(name, attempt, "interrupted", 60.0, "run-1", "", "killed", open=True)]
    (message,) = [each for each in news_of(events) if each.topic == "failure"]
    assert message.text == f"cluster {name} was interrupted more than 3 times: killed"


def test_skipped_clusters() -> None:
    """Whom an operator leaves out is no news; nor is the end of its run."""
    a, b = NAMES[:2]
    skips = [ClusterSkipped(a, "", "unreachable since noon"), ClusterSkipped(b, "ann", "gone")]
    (message,) = news_of(skips)
    assert message.text == f"cluster {a} was left out: unreachable since noon"


def test_texts_of_others() -> None:
    """A reason can call no one and make no link; it shows no secret, also where it is cut, and no kilometres."""
    KNOWN.learn(["correct-horse-battery"])
    long = "x" * 285 + " correct-horse-battery " + "y" * 100_000
    reasons = [f"<!channel> @here [a](https://evil) {HOSTILE}", long, "correct-horse-battery @ann"]
    _, message = news_of([event for name, why in zip(NAMES, reasons, strict=False) for event in ended(name, why)])
    text = json.dumps(payload(message, "north", of="Fleet"))
    assert not any(each in text for each in ("<", "@here", "@ann", "](", "correct-h", "\\u001b"))
    assert len(text) < 10_000 and text.count("correct") == 0
    assert {"title": "Fleet", "value": "north", "short": True} in json.loads(text)["attachments"][0]["fields"]


def test_pause_takes_nothing_back() -> None:
    """A stage that was done is not done once more after a pause, in which every stage waits."""
    shown = campaign_of(20)
    news = CampaignNews(shown.status.fleet)
    names = [each.name for each in shown.status.fleet.clusters]
    inputs = tuple(ClusterInputs(each, "d") for each in names)
    take(news, [CampaignStarted(STARTED.campaign, TARGET, STARTED.pins, inputs, "ann")])
    take(news, ended(names[0], "", "succeeded"))
    going = shown.status.decision
    assert "canary" not in going.stages
    first, told = news.messages(going, Told())
    assert [each.text for each in first if "is done" in each.text] == [
        "stage canary is done, and has soaked: 1 succeeded"
    ]
    paused = Decision(stages={each.name: Wait("paused", person=True) for each in shown.status.fleet.stages}, stop="p")
    _, told = news.messages(paused, told)
    assert told.done == ("canary",)
    again, _ = news.messages(going, told)
    assert not [each for each in again if "is done" in each.text]


@pytest.mark.parametrize("acted", [InputsApproved(NAMES[0], "e", "ann", "reviewed"), RetryRequested(NAMES[0], "ann")])
def test_problem_that_is_there_again_after_an_operator_has_acted(acted: CampaignEvent) -> None:
    """It is news: an operator who approved the folder, or retried the cluster, takes it for solved."""
    has = ClusterChecked(NAMES[0], "changed", "kubeconfig has changed")
    (message,) = news_of([has], after=[has, acted])
    assert message.text == f"cluster {NAMES[0]} waits for an operator: kubeconfig has changed"


def test_gate_of_the_next_cluster() -> None:
    """Where an operator has left out the cluster whose gate stopped all, and then that of another one stops all, that
    is told, too; not what changes of one gate's reason.
    """
    a, b = NAMES[:2]
    news, told = CampaignNews(FLEET), Told(1)
    events = [STARTED, *ended(a, "", "succeeded"), *ended(b, "", "succeeded")]
    events += [SoakGateChecked(each, "errors", "0.2 is above 0.1", failed=True) for each in (a, b)]
    found = list[str]()
    for more in (events, [SoakGateChecked(a, "errors", "0.3", failed=True)], [ClusterSkipped(a, "ann", "gone")]):
        take(news, more)
        messages, told = news.messages(decide(FLEET, news.state, BEGIN), told)
        found += [each.text for each in messages if each.text.startswith("no further cluster begins")]
    first, second = found
    assert f"gate errors of {a} " in first and f"gate errors of {b} " in second
