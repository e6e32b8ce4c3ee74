"""The base of all sections of `upgrader.yaml`, and the types of their values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from upgrader.config.duration import parse_duration
from upgrader.errors import UsageError
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion

__all__ = ["ApprovalSection", "Duration", "NodeShare", "Section", "StepAvailabilitySection", "Text", "Version"]


def _version(text: object) -> KubernetesVersion:
    try:
        return KubernetesVersion.release(str(text))
    except UsageError as error:
        raise ValueError(f"{error.message}; write it like v1.37.1") from error


def _share(value: object) -> IntOrPercent:
    try:
        return IntOrPercent.parse(value if isinstance(value, int | str) and not isinstance(value, bool) else str(value))
    except UsageError as error:
        raise ValueError(error.message) from error


Duration = Annotated[float, BeforeValidator(parse_duration, json_schema_input_type=str)]
Version = Annotated[Any, BeforeValidator(_version, json_schema_input_type=str)]
NodeShare = Annotated[Any, BeforeValidator(_share, json_schema_input_type=int | str)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A mapping of the file; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        # pydantic's own message for an unknown key doesn't list the known ones
        if isinstance(data, dict):
            allowed = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in allowed:
                    raise PydanticCustomError("unknown_key", "unknown key", {"key": str(key), "allowed": allowed})
        return data


class StepAvailabilitySection(Section):
    """How much one step may disturb the API's clients."""

    max_failed: int | None = Field(default=None, ge=0, description="As in `availability`.")
    max_gap: Duration | None = Field(default=None, description="As in `availability`.")


class ApprovalSection(Section):
    """A person's [approval](../observability.md#approvals) before a step changes anything; `--yes` doesn't count as
    one."""

    deadline: Duration = Field(
        default=3600.0,
        description="How long the run waits for the approval. It then ends, and can be resumed or rolled back.",
        examples=["1h"],
    )
