"""When people are told of a campaign: once, wherever its coordinator was killed, and whatever the webhook does."""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testkit.certificates import Authority
from testkit.fakes.http_service import FakeHttpService
from testkit.fleet_machine import FLEET, Machine, begun, coordinator, killed_at, lines_read
from testkit.http_server import HttpServer, http_server
from testkit.waiting import stretched, until
from upgrader.app import wiring
from upgrader.engine.journal.journal_file import JOURNAL
from upgrader.errors import ServiceError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.events import Paused, RetryRequested, StageApproved, Unpaused
from upgrader.fleet.reports import publishing as module
from upgrader.fleet.reports.messenger import TOLD, Messenger
from upgrader.fleet.reports.news import CampaignNews, Told
from upgrader.fleet.reports.publishing import publishing
from upgrader.model.json_values import to_json
from upgrader.model.observability import HttpAnswer
from upgrader.reporting.observability.messages import TOPICS
from upgrader.reporting.observability.webhook import MessageSender

APPROVED = "matchLabels: {ring: production}}, before: [{type: Approval}]"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def messenger_of(
    one: Coordinator, service: Any, notes: list[str] | None = None, topics: tuple[str, ...] = TOPICS
) -> Messenger:
    sender = MessageSender(service, "north", secret_file=None, clock=one.clock, of="Fleet")
    return Messenger(one, sender, topics, (notes if notes is not None else []).append)


def sent(messenger: Messenger) -> None:
    """Return once all is sent that was queued."""
    until("messages", lambda: messenger._sent is messenger._told, timeout_seconds=60, interval_seconds=0.001)


def told(machine: Machine, campaign: Campaign, service: FakeHttpService | None = None, **more: Any) -> list[str]:
    """What is posted while a coordinator runs a campaign until nothing goes on."""
    service = service or FakeHttpService()
    before = len(service.sent)
    one = coordinator(machine, campaign)
    messenger = messenger_of(one, service, **more)

    def look(decision: Any, _: object) -> None:
        messenger.look(decision)
        sent(messenger)

    try:
        one.run(look)
    finally:
        messenger.end()
        messenger.close(stretched(60))
    return texts(service)[before:]


def texts(service: FakeHttpService) -> list[str]:
    return [json.loads(each.body)["text"].removeprefix("north: ") for each in service.sent]


def awaits_approval(machine: Machine) -> Campaign:
    file = machine.folder / "fleet.yaml"
    file.write_text(FLEET.replace("matchLabels: {ring: production}}", APPROVED))
    return begun(machine)


def test_campaign_to_its_end(machine: Machine) -> None:
    """Each stage's begin and end, the approval with its command, the failure and the end, in this order."""
    machine.exit_codes = {"b": [4]}
    campaign = awaits_approval(machine)
    assert told(machine, campaign) == [
        f"campaign {campaign.name} has started, by me: upgrade to v1.37.1 of 3 clusters; stages: canary, production",
        "stage canary has started: 1 cluster, 1 at a time",
        "stage canary is done, and has soaked: 1 succeeded",
        "stage production waits for an approval: `upgrader fleet approve production --reason WHY`",
    ]
    campaign.ask(StageApproved("production", "ann", "quiet"), machine.clock)
    goes_on, begins, rolled_back, done, end = told(machine, campaign)
    assert goes_on == f"campaign {campaign.name} continues, by me"
    assert begins == "stage production has started: 2 clusters, 2 at a time"
    assert rolled_back == "cluster b was rolled back: b failed"
    assert done == "stage production is done: 1 succeeded, 1 rolled-back"
    assert end == (f"campaign {campaign.name} (upgrade to v1.37.1) is done: 2 succeeded, 1 rolled-back; failed: b")
    assert told(machine, campaign) == [], "it is over"


def test_coordinator_that_is_started_again_and_again(machine: Machine) -> None:
    """A Deployment does so each minute while a stage waits for an approval: no one is told a second time."""
    campaign = awaits_approval(machine)
    assert told(machine, campaign)
    for _ in range(5):
        machine.clock.sleep(60)
        assert told(machine, campaign) == []


def test_events_of_the_coordinator(machine: Machine) -> None:
    """What tells people takes them as the coordinator reads them: each line of the journal is read once for both."""
    campaign = begun(machine)
    with lines_read() as read:
        assert told(machine, campaign)
    assert read[1:] == list(range(len(read) - 1)), "the first one is read for the place of the next one"


@pytest.mark.every_moment
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", range(14))
def test_killed_at_each_append(machine: Machine, moment: int, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before or after any line of the journal, each piece of news comes exactly once, by this coordinator or the
    next one.
    """
    machine.exit_codes = {"b": [130], "c": [4]}
    campaign, service = begun(machine), FakeHttpService()
    with killed_at(moment, after=after), monkeypatch.context() as patched:
        patched.setattr(Messenger, "end", lambda _: None)
        patched.setattr(Messenger, "close", lambda *_: None)
        told(machine, campaign, service)
    told(machine, campaign, service)
    beginnings = Counter(" ".join(each.split()[:2]) for each in texts(service))
    name = campaign.name
    assert beginnings == Counter({f"campaign {name}": 2, "stage canary": 2, "stage production": 2, "cluster c": 1}), (
        texts(service)
    )


def test_killed_before_it_was_sent(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was queued, and not sent, is sent by the next coordinator; also the end of the campaign, which that one does
    not look at any more.
    """
    campaign = begun(machine)
    with monkeypatch.context() as patched:
        patched.setattr(Messenger, "look", lambda *_: None)
        patched.setattr(Messenger, "end", lambda self: self._delivery.end())
        assert told(machine, campaign) == []
    one, service = coordinator(machine, campaign), FakeHttpService()
    assert one.over
    messenger = messenger_of(one, service)
    messenger.end()
    messenger.close(stretched(60))
    assert texts(service)[0].startswith("campaign ") and " is done: 3 succeeded" in texts(service)[-1]
    assert len(texts(service)) == 6, "a message of each kind"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"events": "7"}'])
def test_record_that_is_lost(machine: Machine, damage: str) -> None:
    """Without a record of what people know, they are told again, once."""
    campaign = awaits_approval(machine)
    before = told(machine, campaign)
    (campaign.folder / TOLD).write_text(damage)
    assert sorted(told(machine, campaign)) == sorted(before) and told(machine, campaign) == []


def test_journal_that_was_restored(machine: Machine) -> None:
    """Of a journal from a backup, which lacks what people know, that is told again which comes anew."""
    campaign = begun(machine)
    backup = (campaign.folder / JOURNAL).read_bytes()
    assert told(machine, campaign)
    (campaign.folder / JOURNAL).write_bytes(backup)
    assert told(machine, campaign)[-1].startswith(f"campaign {campaign.name} (upgrade to v1.37.1) is done: ")


def test_first_look_after_a_journal_was_restored(machine: Machine) -> None:
    """What it does is news, although people know of as many events."""
    campaign = begun(machine)
    (campaign.folder / TOLD).write_text(json.dumps(to_json(Told(100), mask=False)))
    assert told(machine, campaign)[0] == "stage canary has started: 1 cluster, 1 at a time"


def test_stop_pause_and_retry(machine: Machine) -> None:
    """A limit that is reached, a pause, its end, and the way on after a retry are told, and not that it is stopped for
    as long as that is so.
    """
    machine.exit_codes = {"a": [3, 3]}
    campaign = begun(machine)
    *_, blocked, stopped = told(machine, campaign)
    assert blocked == "cluster a is blocked: a failed"
    assert stopped.startswith("no further cluster begins: stage canary: blocked: a; maxFailures.blocked is 0")
    campaign.ask(Paused("ann", "lunch"), machine.clock)
    assert told(machine, campaign) == ["the campaign was paused by ann: lunch"]
    campaign.ask(Unpaused("ann"), machine.clock)
    assert told(machine, campaign) == ["the campaign was resumed by ann"]
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    goes_on, blocked, stopped = told(machine, campaign)
    assert goes_on.endswith("continues, by me") and blocked.startswith("cluster a is blocked")
    assert stopped.startswith("no further cluster begins"), "once more, as it went on meanwhile"


def test_retry_after_the_end(machine: Machine) -> None:
    """A campaign that has ended, and goes on by a retry, says so, and then how it has ended."""
    machine.exit_codes = {"b": [4]}
    campaign = begun(machine)
    assert told(machine, campaign)
    campaign.ask(RetryRequested("b", "ann"), machine.clock)
    goes_on, done, end = told(machine, campaign)
    assert goes_on == f"campaign {campaign.name} continues, by me"
    assert done == "stage production is done: 2 succeeded" and end.endswith("is done: 3 succeeded")
    assert told(machine, campaign) == []


def test_second_cluster_with_the_same_cause(machine: Machine) -> None:
    """The stop has the cause."""
    file = machine.folder / "fleet.yaml"
    file.write_text(FLEET.replace("{rolledBack: 1}", "{rolledBack: 2, sameCause: 1}"))
    machine.exit_codes = {"b": [4], "c": [4]}
    rolled_back, stopped = told(machine, begun(machine))[-2:]
    assert rolled_back == "2 clusters were rolled back (b, c): b failed"
    assert stopped == (
        "no further cluster begins: b, c failed for the same cause: NAME failed; maxFailures.sameCause is 1"
    )


def test_cluster_that_answers_now_and_then(machine: Machine) -> None:
    """It is unreachable once, and left out once."""
    campaign, service = begun(machine), FakeHttpService()
    machine.silent = {"a"}
    found = told(machine, campaign, service)
    assert [each for each in found if "unreachable" in each] == [
        "cluster a is unreachable: a doesn't answer",
        "cluster a was left out: unreachable since 2026-01-01 00:00Z",
    ]
    assert found[-1].startswith("stage canary waits: none of its clusters has succeeded")


def test_flapping_api_is_told_of_once(machine: Machine) -> None:
    """A cluster in a shut stage whose API answers every other minute makes no message each time."""
    file = machine.folder / "fleet.yaml"
    file.write_text(FLEET.replace("wait: 3m, then: skip", "wait: 9d"))
    campaign, service = begun(machine), FakeHttpService()
    one = coordinator(machine, campaign)
    messenger = messenger_of(one, service)
    campaign.ask(Paused("ann", ""), machine.clock)
    for minute in range(20):
        machine.silent = {"a"} if minute % 2 else set()
        one._found(one.campaign.journaled().clusters["a"], "unreachable" if minute % 2 else "", "no route")
        machine.clock.sleep(61)
        messenger.look(one.look()[0])
        sent(messenger)
    messenger.end()
    messenger.close(stretched(60))
    assert sum("unreachable" in each for each in texts(service)) == 1


@pytest.mark.parametrize("answer", [HttpAnswer(500), HttpAnswer(302), ServiceError("no answer within 5 s")])
def test_webhook_that_fails(machine: Machine, answer: HttpAnswer | ServiceError) -> None:
    """Each message is tried twice, its failure is noted once, the campaign is done, and the next coordinator repeats
    none of it.
    """
    campaign, service, notes = begun(machine), FakeHttpService(answer), list[str]()
    assert len(told(machine, campaign, service, notes=notes)) == 2 * 6
    (note,) = notes
    assert note.startswith("messages can't be sent to the webhook, but the campaign continues: ")
    assert campaign.state().ended is not None and told(machine, campaign, service) == []


def test_webhook_that_hangs(machine: Machine) -> None:
    """Nothing waits for it but the end, for some seconds; what happens meanwhile makes no queue. The next coordinator
    doesn't hang at the same messages.
    """
    hold, notes = threading.Event(), list[str]()

    class Hanging(FakeHttpService):
        def send(self, *_: Any) -> HttpAnswer:
            hold.wait()
            return HttpAnswer(200)

    campaign = begun(machine)
    one = coordinator(machine, campaign)
    messenger = messenger_of(one, Hanging(), notes)
    decision, _ = one.run(lambda decision, _: messenger.look(decision))
    messenger.end()
    assert messenger._delivery._items.qsize() <= 3, "two batches, and the end"
    messenger.close(0.01)
    assert decision.done and len(notes) == 1 and "not everything was sent in time" in notes[0]
    assert told(machine, campaign) == []
    hold.set()


def test_messages_have_a_distance(machine: Machine) -> None:
    """Clusters that fail in one look after the other are in one message each ten seconds, and none is forgotten."""
    one, service = coordinator(machine, begun(machine)), FakeHttpService()
    messenger = messenger_of(one, service)
    for name in "abc":
        one._found(one.campaign.journaled().clusters[name], "unreachable", "no route")
        messenger.look(one._decide(one.journaled()))
        sent(messenger)
        machine.clock.sleep(4)
    assert "cluster a is unreachable: no route" in texts(service)
    machine.clock.sleep(4)
    messenger.look(one._decide(one.journaled()))
    sent(messenger)
    assert texts(service)[-1] == "2 clusters are unreachable (b, c): no route"
    messenger.end()
    messenger.close(stretched(60))


def test_only_what_is_asked_for(machine: Machine) -> None:
    """With `events: [end]`, no other message comes."""
    found = told(machine, begun(machine), topics=("end",))
    assert len(found) == 3 and all(" is done" in each for each in found)


def test_fault_of_ours_ends_no_campaign(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noted once, and the campaign is done."""

    def fault(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(CampaignNews, "messages", fault)
    campaign, notes = begun(machine), list[str]()
    assert told(machine, campaign, notes=notes) == [] and campaign.state().ended is not None
    assert notes == [
        "messages to the webhook can't be made, but the campaign continues: ZeroDivisionError: division by zero"
    ]


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """An HTTPS server, whose CA is in the fleet's folder."""
    (tmp_path / "pki").mkdir()
    authority = Authority(tmp_path / "pki/ca")
    authority.issue(tmp_path / "pki/server", "webhook")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pki/server.pem", tmp_path / "pki/server.key")
    with http_server(lambda request: request.reply(200), context) as state:
        yield state


@pytest.mark.parametrize("trusted", [True, False])
def test_real_server(
    machine: Machine, server: HttpServer, trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign of a fleet.yaml as in docs/fleet.md posts signed messages over TLS to the address in a file; and to no
    server whose certificate isn't signed by the CA that it names.
    """
    monkeypatch.setattr(wiring, "_SERVICE_SECONDS", stretched(60))  # on a busy machine, too
    monkeypatch.setattr(module, "_LAST_SECONDS", stretched(60))
    (tmp_path / "url").write_text(f"{server.url}/services/T0AAAA/B0BBBB\n")
    (tmp_path / "key").write_text("s3cret-of-mine\n")
    if not trusted:
        Authority(tmp_path / "pki/ca")
    webhook = "{urlFile: url, secretFile: key, caFile: pki/ca.pem}"
    file = machine.folder / "fleet.yaml"
    file.write_text(f"{FLEET}  observability: {{fleet: north, webhook: {webhook}}}\n")
    campaign, notes = begun(machine), list[str]()
    one = coordinator(machine, campaign)
    with publishing(one, notes.append) as publisher:
        one.run(publisher.look)
    found = [json.loads(body) for body in server.bodies]
    if not trusted:
        (note,) = notes
        assert "CERTIFICATE_VERIFY_FAILED" in note and not found and campaign.state().ended is not None
        return
    assert notes == [] and set(server.requests) == {"POST /services/T0AAAA/B0BBBB"}
    assert server.headers["X-Upgrader-Signature"].startswith("v1=")
    assert found[0]["text"].startswith("north: campaign ") and " is done: 3 succeeded" in found[-1]["text"]
    fields = {each["title"]: each["value"] for each in found[-1]["attachments"][0]["fields"]}
    assert (fields["Fleet"], fields["Event"], fields["Outcome"]) == ("north", "end", "succeeded")
    assert fields["Campaign"] == campaign.name and b"s3cret" not in b"".join(server.bodies)
