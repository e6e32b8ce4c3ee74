"""What a redacted result still says of names that users chose."""

from __future__ import annotations

from upgrader.steps.rehearsal.differences import Difference, findings_of
from upgrader.steps.rehearsal.redacted import redacted
from upgrader.steps.rehearsal.result import Result


def shown(*differences: Difference) -> list[Difference]:
    """The same, redacted."""
    return list(redacted(Result("a", differences, {}, 1.0, 1)).differences)


def test_a_version_that_a_user_named_has_a_placeholder() -> None:
    """A CustomResourceDefinition's versions may have any name, such as a project's; the usual ones stay."""
    found = shown(
        Difference("version", "acmes.acme.example.com", "acme-phoenix", 1, ("acme/one",)),
        Difference("manifest-gone", "acmes.acme.example.com", "acme.example.com/acme-phoenix", 1, ()),
        Difference("client", "acme.example.com/acme-phoenix acmes list", "", 1, ()),
        Difference("version", "acmes.acme.example.com", "acme-2", 1, ()),
        Difference("version", "acmes.acme.example.com", "v1beta1", 1, ()),
    )
    assert "acme" not in str([found, list(findings_of(found))])
    versions = ["version-1", "version-1", "", "version-2", "v1beta1"]
    assert [each.reason for each in found] == versions
    assert found[2].resource == "version-1 custom-resource-1 list"
    (kept,) = shown(Difference("version", "horizontalpodautoscalers.autoscaling", "v2", 1, ()))
    assert kept.reason == "v2"


def test_a_policy_has_a_placeholder_in_each_reason() -> None:
    """Also where a client's request was refused."""
    denied = "ValidatingAdmissionPolicy acme-rules denied request: …"
    (found,) = shown(Difference("client", "v1 pods list", denied, 1, ()))
    assert found.reason == "ValidatingAdmissionPolicy policy-1 denied request: …"
