"""The authority, its certificate, their Secret and the webhook configurations, through renewals and changes."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.commands.flags import parse
from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict
from upgrader.in_cluster.guard.runtime.ca_injection import CONFIGURATIONS, Injection, labels_of
from upgrader.in_cluster.guard.runtime.certificate_keeper import CertificateKeeper, FileKeeper
from upgrader.in_cluster.guard.runtime.certificate_renewal import Bundle, Wanted, renewed
from upgrader.in_cluster.guard.runtime.certificate_secret import CertificateSecret
from upgrader.in_cluster.guard.runtime.http_servers import ServedCertificate
from upgrader.in_cluster.guard.runtime.informer import Informer, whole
from upgrader.in_cluster.guard.runtime.resource import Resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "guard.ops.svc"
WANTED = Wanted((NAME,))
SECRETS = Resource("v1", "secrets")
VALIDATING = CONFIGURATIONS["ValidatingWebhook"]


def days(number: float) -> datetime:
    """So many after the first one."""
    return NOW + timedelta(days=number)


def is_trusted(bundle: Bundle, trusted: bytes, at: datetime, name: str = NAME) -> bool:
    """Whether an API server that trusts these authorities takes the certificate."""
    store = Store(x509.load_pem_x509_certificates(trusted))
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(bundle.leaf.parsed, [])
    except VerificationError:
        return False
    return True


def test_a_first_certificate_is_trusted_by_its_own_authority_only() -> None:
    """It is for the Service's name, from some minutes ago on: clocks differ."""
    bundle, other = (renewed(None, WANTED, NOW, injected=False) for _ in range(2))
    assert is_trusted(bundle, bundle.trusted, NOW - timedelta(minutes=4))
    assert not is_trusted(bundle, bundle.trusted, NOW - timedelta(minutes=6))
    assert not is_trusted(bundle, bundle.trusted, NOW, "other.ops.svc")
    assert not is_trusted(bundle, other.trusted, NOW)


def test_it_is_renewed_at_two_thirds_of_its_life() -> None:
    """Not before; by the same authority, so that nothing has to be injected."""
    bundle = renewed(None, WANTED, NOW, injected=False)
    assert renewed(bundle, WANTED, days(243), injected=True) is bundle
    after = renewed(bundle, WANTED, days(244), injected=True)
    assert after.leaf != bundle.leaf and after.trusted == bundle.trusted
    assert is_trusted(after, bundle.trusted, days(500))


def test_the_shortest_life_that_the_flag_takes_lasts_for_minutes() -> None:
    """As clocks differ, a certificate begins before it is made: one of two minutes would be due from the start."""
    given = ["-kubernetes.namespace=ops", "-server-tls.enabled", "-server-tls.self-signed-cert.expiration=10m"]
    wanted = replace(WANTED, life=parse(given).life)
    bundle = renewed(None, wanted, NOW, injected=False)
    assert renewed(bundle, wanted, NOW + timedelta(minutes=4), injected=True) is bundle
    assert renewed(bundle, wanted, NOW + timedelta(minutes=6), injected=True) is not bundle


def test_other_names_make_another_certificate() -> None:
    """A Service that was renamed isn't waited for."""
    bundle = renewed(None, WANTED, NOW, injected=False)
    wanted = Wanted(("guard.other.svc", "10.0.0.1"))
    after = renewed(bundle, wanted, NOW, injected=False)
    assert is_trusted(after, bundle.trusted, NOW, "guard.other.svc") and after.authority == bundle.authority
    assert renewed(after, wanted, NOW, injected=False) is after


def test_no_moment_of_a_change_of_authorities_is_untrusted() -> None:
    """The successor is trusted everywhere before it signs, and the former one until it ends: at each moment, whatever
    was injected last trusts every certificate that a replica may show.
    """
    first = renewed(None, WANTED, NOW, injected=True)
    at = days(3650 * 2 / 3 + 1)
    announced = renewed(first, WANTED, at, injected=True)
    assert announced.successor and announced.authority == first.authority
    assert is_trusted(announced, first.trusted, at), "a configuration that has only what was there before"
    assert renewed(announced, WANTED, at, injected=False) is announced, "not before it is injected"
    changed = renewed(announced, WANTED, at, injected=True)
    assert changed.authority == announced.successor and changed.successor is None
    assert changed.former == (first.authority.certificate,)
    assert is_trusted(changed, announced.trusted, at), "a configuration that has only what was announced"
    assert is_trusted(announced, changed.trusted, at), "a replica that shows the old certificate still"
    late = renewed(changed, WANTED, days(3651), injected=True)
    assert late.former == (), "it has ended"


def test_an_authority_that_has_ended_is_replaced_at_once() -> None:
    """After years without a running guard there is nothing to be careful with."""
    bundle = renewed(None, WANTED, NOW, injected=True)
    after = renewed(bundle, WANTED, days(3651), injected=False)
    assert after.former == () and is_trusted(after, after.trusted, days(3652))


def test_the_secret_keeps_all_of_it() -> None:
    """What one replica made is what another one reads, in each state."""

    async def run() -> None:
        api = FakeApi()
        one, other = (CertificateSecret(api, "ops", "cert", WANTED) for _ in range(2))
        made = await one.current(NOW)
        assert await other.current(NOW) == made
        at = days(3650 * 2 / 3 + 1)
        announced = await one.current(at)
        assert announced.successor and await other.current(at) == announced
        changed = await other.current(at, injected=announced.trusted)
        assert changed.former and await one.current(at, injected=announced.trusted) == changed
        assert api.objects[SECRETS.path("ops", "cert")]["type"] == "kubernetes.io/tls"

    asyncio.run(run())


def test_two_replicas_agree_on_the_first_one() -> None:
    """Who comes second takes what is there; so does one whose write came too late."""

    async def run() -> None:
        api = FakeApi()
        secrets = [CertificateSecret(api, "ops", "cert", WANTED) for _ in range(2)]
        one, other = await asyncio.gather(*(each.current(NOW) for each in secrets))
        assert one == other
        api.next_answer("replace", Conflict("modified", 409))
        assert (await secrets[0].current(days(300))).leaf != one.leaf

    asyncio.run(run())


@pytest.mark.parametrize("content", [{}, {"tls.crt": "x"}, {"tls.crt": "x", "tls.key": "x", "ca.crt": "x"}])
def test_a_secret_that_cannot_be_used_is_written_anew(content: dict[str, str]) -> None:
    """Nobody else could mend it, and webhooks fail as long as it isn't."""

    async def run() -> None:
        api = FakeApi()
        data = {name: base64.b64encode(text.encode()).decode() for name, text in content.items()}
        api.put(SECRETS, {"metadata": {"name": "cert"}, "data": data}, "ops")
        made = await CertificateSecret(api, "ops", "cert", WANTED).current(NOW)
        assert await CertificateSecret(api, "ops", "cert", WANTED).current(NOW) == made

    asyncio.run(run())


@pytest.mark.parametrize("key", ["tls.key", "ca.key"])
def test_a_key_of_another_certificate_ends_no_process(key: str) -> None:
    """A Secret that was put together by hand, or half restored: it is written anew, and what it has is shown. Each
    replica would end otherwise, whenever it starts.
    """

    async def run() -> None:
        api = FakeApi()
        secret = CertificateSecret(api, "ops", "cert", WANTED)
        for name in ("cert", "other"):
            await CertificateSecret(api, "ops", name, WANTED).current(NOW)
        found, other = (api.objects[SECRETS.path("ops", name)] for name in ("cert", "other"))
        api.put(SECRETS, {**found, "data": {**found["data"], key: other["data"][key]}}, "ops")
        served = ServedCertificate()
        bundle = await secret.current(NOW)
        served.show(bundle.leaf.certificate, bundle.leaf.key)
        renewed_ = await secret.current(days(300))
        assert is_trusted(renewed_, bundle.trusted, days(300))

    asyncio.run(run())


def configuration(name: str, *bundles: str | None) -> dict[str, Any]:
    """Webhooks with these in their caBundle."""
    hooks = [
        {"name": f"{i}.x", "clientConfig": {"caBundle": bundle} if bundle else {}} for i, bundle in enumerate(bundles)
    ]
    return {"metadata": {"name": name}, "webhooks": hooks}


class Injected:
    """Configurations that one informer knows, and the injection into them."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self.api, self.seconds = FakeApi(), 0.0
        for each in found:
            self.api.put(VALIDATING, each)
        self.informer = Informer(self.api, VALIDATING, keep=whole)
        self.injection = Injection(self.api, {"ValidatingWebhook": self.informer}, lambda: self.seconds)

    async def see(self) -> None:
        """The informer knows what there is now."""
        await self.informer._list()

    def bundles(self) -> list[list[str | None]]:
        """As they are now."""
        return [
            [hook["clientConfig"].get("caBundle") for hook in found["webhooks"]]
            for found in self.api.objects.values()
            if "webhooks" in found
        ]


def test_what_differs_gets_the_authority_and_nothing_else_is_written() -> None:
    """Each webhook of each configuration; one that has it already is left alone."""

    async def run() -> None:
        bundle = base64.b64encode(b"new").decode()
        all_of_them = Injected(configuration("a", None, "b2xk"), configuration("b", bundle))
        await all_of_them.see()
        await all_of_them.injection.inject(b"new")
        assert all_of_them.bundles() == [[bundle, bundle], [bundle]]
        assert [call for call in all_of_them.api.calls if call.startswith("patch")] == [
            f"patch {VALIDATING.path(name='a')}"
        ]

    asyncio.run(run())


def test_it_is_settled_when_all_have_had_it_for_two_minutes() -> None:
    """Whatever is put to null meanwhile, or is new, begins the two minutes anew."""

    async def run() -> None:
        found = Injected(configuration("a", None))
        injection = found.injection
        assert injection.settled() == b""
        for _ in range(2):
            await found.see()
            await injection.inject(b"new")
        found.seconds = 121.0
        assert injection.settled() == b"new"
        found.api.put(VALIDATING, configuration("b", None))
        await found.see()
        await injection.inject(b"new")
        assert injection.settled() == b""

    asyncio.run(run())


def test_a_configuration_that_changed_meanwhile_is_left_for_the_next_time() -> None:
    """Its own version is what is patched."""

    async def run() -> None:
        found = Injected(configuration("a", None), configuration("b", None))
        await found.see()
        found.api.put(VALIDATING, configuration("a", None))
        del found.api.objects[VALIDATING.path(name="b")]
        await found.injection.inject(b"new")
        assert found.bundles() == [[None]]
        assert found.injection.settled() == b""

    asyncio.run(run())


def test_configurations_are_those_that_say_so() -> None:
    """Both labels, as rollout-operator's manifests have them."""
    assert labels_of(["ops", "shop"]) == (
        "grafana.com/inject-rollout-operator-ca=true,grafana.com/namespace in (ops,shop)"
    )


def test_the_keeper_shows_then_injects(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Secret has is what is shown and injected; while the API is away, what is shown stays."""

    async def run() -> None:
        found = Injected(configuration("a", None))
        await found.see()
        served = ServedCertificate()
        secret = CertificateSecret(found.api, "ops", "cert", WANTED)
        keeper = CertificateKeeper(secret, served, found.injection, lambda: NOW)
        assert served.why_not(NOW) == "not issued yet"
        await keeper.once()
        assert served.why_not(NOW) == "" and served.why_not(days(365)) == "expired at 2027-01-01T00:00:00Z"
        trusted = (await secret.current(NOW)).trusted
        (content,) = found.bundles()[:1]
        assert content == [base64.b64encode(trusted).decode()]
        found.api.next_answer("get", ApiAway("refused"))
        task = asyncio.create_task(keeper.run())
        while found.api.answers["get"]:
            await asyncio.sleep(0)
        task.cancel()
        assert served.why_not(NOW) == ""

    asyncio.run(run())


def test_files_are_shown_as_they_are_now(tmp_path: Any) -> None:
    """A pair that somebody else renews; a half-written one changes nothing."""

    async def run() -> None:
        one, other = (renewed(None, WANTED, days(n), injected=False).leaf for n in (0, 1))
        certificate, key = tmp_path / "crt", tmp_path / "key"
        served = ServedCertificate()
        for pair, ends in ((one, days(365)), (replace(other, key=one.key), days(365)), (other, days(366))):
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)
            task = asyncio.create_task(FileKeeper(certificate, key, served).run())
            await asyncio.sleep(0)
            task.cancel()
            assert served.ends == ends

    asyncio.run(run())
