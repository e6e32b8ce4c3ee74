"""A token that the running version issues is reviewed by the target."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.onhost.rehearsal.api import Listed, Page, Resource
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.tokens import SERVICE_ACCOUNTS
from upgrader.steps.rehearsal.differences import Difference, findings_of

ACCOUNTS = Resource("", "serviceaccounts", "v1", "ServiceAccount", True, ("list",))
REFUSED = "[invalid bearer token, oidc: issuer is not known]"


NONE = {"message": "no signing key"}


class Server:
    """Issues a token, `issues`, unless that is "", and accepts those of `accepts`."""

    name = "a"

    def __init__(self, issues: str = "secret", accepts: str = "secret", accounts: int = 1) -> None:
        self.issues, self.accepts, self.accounts = issues, accepts.split(), accounts

    def page(self, *_: object, **__: object) -> Page:
        """As `Api.page`."""
        return Page([Listed.of({"metadata": {"namespace": "shop", "name": "web"}})] * self.accounts)

    def ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As `Api.ask`."""
        assert method == "POST"
        if path == "/api/v1/namespaces/shop/serviceaccounts/web/token":
            return (201, {"status": {"token": self.issues}}) if self.issues else (500, NONE)
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        if not self.accepts:
            return 500, NONE
        accepted = body["spec"]["token"] in self.accepts
        return 201, {"status": {"authenticated": True} if accepted else {"error": REFUSED}}


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
        (Server(accepts="other"), Server(accepts="other"), [], ""),
        (Server(""), Server(accepts="other"), [], ""),
        (Server(accounts=0), Server(accepts="other"), [], ""),
    ],
)
def test_tokens_that_only_one_version_refuses_are_told(
    current: Server, target: Server, whats: list[str], why: str
) -> None:
    """Another issuer, key or audience leaves every object as it is, and pods' clients without access: those of running
    pods, those of new ones, or those of new ones that ask a controller that is not upgraded yet.
    """
    comparison = Comparison(current, target, 1, 0.0)  # type: ignore[arg-type]
    served = {SERVICE_ACCOUNTS: [ACCOUNTS]}
    comparison._tokens(served, served)
    found = comparison.findings()
    assert [each["what"] for each in found] == whats
    for each in found:
        (finding,) = findings_of([Difference(each["what"], each["resource"], each["reason"], 1, ())])
        assert finding.id == "rehearsal.token" and finding.severity == "error" and "secret" not in str(finding)
        assert each["reason"] in finding.diagnosis and (why != "no signing key" or "key" in each["reason"])
