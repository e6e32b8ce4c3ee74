"""A token that the running version issues is reviewed by the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from upgrader.model.finding import Finding
from upgrader.onhost.rehearsal.api import Listed, Page, Resource
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.tokens import SERVICE_ACCOUNTS, sample
from upgrader.steps.rehearsal.differences import Difference, findings_of

ACCOUNTS = Resource("", "serviceaccounts", "v1", "ServiceAccount", True, ("list",))
REFUSED = "[invalid bearer token, oidc: issuer is not known]"
NONE = {"message": "no signing key"}


class Server:
    """Issues a token, `issues`, unless that is "", and accepts those of `accepts`; neither for accounts of the
    namespaces of `denied`.
    """

    name = "a"

    def __init__(
        self,
        issues: str = "secret",
        accepts: str = "secret",
        accounts: Sequence[str] = ("shop/web",),
        denied: Sequence[str] = (),
    ) -> None:
        self.issues, self.accepts, self.accounts, self.denied = issues, accepts.split(), accounts, denied
        self.asked = 0

    def page(self, _: Resource, at: str, **__: object) -> Page:
        """As `Api.page`: one account a page."""
        number = int(at or 0)
        keys = [each.split("/") for each in self.accounts[number : number + 1]]
        more = str(number + 1) if number + 1 < len(self.accounts) else ""
        return Page([Listed.of({"metadata": {"namespace": each, "name": name}}) for each, name in keys], more)

    def ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As `Api.ask`."""
        assert method == "POST"
        self.asked += 1
        if path.startswith("/api/v1/namespaces/"):
            namespace, name = path.split("/")[4], path.split("/")[6]
            assert f"{namespace}/{name}" in self.accounts
            assert path == f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
            issues = "" if namespace in self.denied else self.issues
            return (201, {"status": {"token": f"{issues} {namespace}"}}) if issues else (500, NONE)
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        if not self.accepts:
            return 500, NONE
        token, namespace = body["spec"]["token"].split(" ")
        accepted = token in self.accepts and namespace not in self.denied
        return 201, {"status": {"authenticated": True} if accepted else {"error": REFUSED}}


def tried(current: Server, target: Server) -> list[dict[str, Any]]:
    """What a comparison finds."""
    comparison = Comparison(current, target, 1, 0.0)  # type: ignore[arg-type]
    served = {SERVICE_ACCOUNTS: [ACCOUNTS]}
    comparison._tokens(served, served)
    return comparison.findings()


def finding_of(found: dict[str, Any]) -> Finding:
    """As it is reported."""
    difference = Difference(**{**found, "names": tuple(found["names"])})
    (finding,) = findings_of([difference])
    return finding


BOTH = "secret secret-2"


@pytest.mark.parametrize(
    ("current", "target", "whats", "why"),
    [
        (Server(), Server(), [], ""),
        (Server(accepts=BOTH), Server("secret-2", BOTH), [], ""),
        (Server(accepts=BOTH), Server("secret-2", "secret-2"), ["token"], REFUSED),
        (Server(), Server("secret-2", "secret-2"), ["token", "token-new"], REFUSED),
        (Server(), Server("secret-2", BOTH), ["token-new"], REFUSED),
        (Server(), Server("secret-2"), ["token-own"], REFUSED),
        (Server(), Server(""), ["token-none"], "no signing key"),
        (Server(), Server("", ""), ["token", "token-none"], "no signing key"),
        (Server(accounts=()), Server(accepts="other"), [], ""),
    ],
)
def test_tokens_that_only_one_version_refuses_are_told(
    current: Server, target: Server, whats: list[str], why: str
) -> None:
    """Another issuer, key or audience leaves every object as it is, and pods' clients without access: those of running
    pods, those of new ones, or those of new ones that ask a controller that is not upgraded yet.
    """
    found = tried(current, target)
    assert [each["what"] for each in found] == whats
    for each in found:
        finding = finding_of(each)
        assert finding.id == "rehearsal.token" and finding.severity == "error" and "secret" not in str(finding)
        assert each["reason"] in finding.diagnosis and (why != "no signing key" or "key" in each["reason"])
        assert "shop/web" in finding.diagnosis


@pytest.mark.parametrize("current", [Server(accepts="other"), Server("")])
def test_tokens_that_the_running_version_refuses_everywhere_are_not_called_fine(current: Server) -> None:
    """Nothing was compared then, and a rehearsal without a finding says that all was."""
    (found,) = tried(current, Server(accepts="other"))
    finding = finding_of(found)
    assert (found["what"], finding.id, finding.severity) == ("no-token", "rehearsal.unproven", "unknown")
    assert "tokens" in finding.title


def test_an_account_that_gets_no_token_today_does_not_hide_the_others() -> None:
    """The first one may be in a namespace where a policy denies that."""
    accounts = ("closed/web", "shop/web", "shop/worker")
    current, target = (Server(accounts=accounts, denied=("closed",), accepts=each) for each in ("secret", "other"))
    found = tried(current, target)
    assert [(each["what"], each["names"]) for each in found] == [("token", ["shop/web"]), ("token-own", ["shop/web"])]


def test_an_account_that_only_the_target_refuses_is_found_behind_others() -> None:
    """Its admission policies decide for each namespace."""
    accounts = ("default/default", "shop/web", "vault/unsealer")
    (found,) = tried(Server(accounts=accounts), Server(accounts=accounts, denied=("shop",)))[1:]
    assert (found["what"], found["count"], found["names"]) == ("token-none", 1, ["shop/web"])


def test_the_sample_has_ten_namespaces_from_the_first_to_the_last() -> None:
    """And not the ten that come first in the alphabet, nor ten accounts of one namespace."""
    keys = [(f"team-{number:03}", name) for number in range(500) for name in ("builder", "default")]
    found = sample(keys)
    assert len(found) == len({namespace for namespace, _ in found}) == 10
    assert [namespace for namespace, _ in found][::9] == ["team-000", "team-499"]
    assert sample([("one", "a"), ("one", "b"), ("two", "a")]) == [("one", "a"), ("two", "a")]
    assert sample([]) == []


def test_many_accounts_take_no_more_requests_than_ten() -> None:
    """Each account takes five requests at most, and a cluster may have thousands."""
    accounts = [f"team-{number:03}/web" for number in range(60)]
    current, target = Server(accounts=accounts), Server(accounts=accounts)
    assert not tried(current, target)
    assert current.asked + target.asked <= 60


def test_findings_of_tokens_differ_in_their_first_words() -> None:
    """In a list that shortens them, one that ends running pods' access and one that matters for a rollback alone must
    not look like the same one twice.
    """
    whats = ("token", "token-own", "token-none", "token-new")
    titles = [finding.title for finding in findings_of(Difference(each, "x", "y", 1, ("a/b",)) for each in whats)]
    assert len({" ".join(each.split()[:3]) for each in titles}) == len(titles)
    assert not any(each.startswith(("the target refuses tokens", "the running version refuses")) for each in titles)
