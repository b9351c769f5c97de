"""A query as a user writes it: PromQL alone, or PromQL with how its answer is read."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from autoscaler.config.fields import (
    Duration,
    LongerThanZero,
    Model,
    PromQL,
    SchemaAlternative,
    Text,
)
from autoscaler.config.problems import one_line

_MATCHER = re.compile(r"[^=!~\"']+(=|!=|=~|!~)[\"'`]")


class SeriesLabelsModel(Model):
    """The names of the labels that say which object a series is about."""

    namespace: Text | None = Field(
        default=None,
        description="The label that holds the namespace.",
        json_schema_extra={"default": "namespace"},
    )
    pod: Text | None = Field(
        default=None,
        description="The label that holds the pod's name.",
        json_schema_extra={"default": "pod"},
    )
    container: Text | None = Field(
        default=None,
        description="The label that holds the container's name.",
        json_schema_extra={"default": "container"},
    )


class QueryModel(Model):
    """PromQL, and how its answer is read."""

    query: PromQL = Field(description="The PromQL; targets with equal PromQL share one request.")
    window: Duration | None = Field(
        default=None,
        description="The time that a sample averages over, usually the range of rate(). "
        "Default: 60s; the built-in's for an override in `resourceQueries`.",
    )
    max_age: LongerThanZero | None = Field(
        default=None,
        description="Older samples do not count.",
        json_schema_extra={"default": "5m"},
    )
    labels: SeriesLabelsModel | None = Field(
        default=None, description="The names of the labels, where they are not the usual ones."
    )


def _query_form(value: object) -> object:
    if isinstance(value, str):
        return {"query": value}
    if isinstance(value, dict):
        _refuse_unquoted_selector(value)
    if isinstance(value, dict | QueryModel):
        return value
    raise ValueError("must be PromQL, or a mapping with `query` and what else is needed")


def _refuse_unquoted_selector(value: dict[object, object]) -> None:
    """Refuse what YAML makes of PromQL that begins with ``{``: keys such as ``job="a"``."""
    matchers = [key for key in value if isinstance(key, str) and _MATCHER.match(key)]
    if matchers and len(matchers) == len(value) and not any(value.values()):
        meant = one_line("'{" + ", ".join(matchers).replace("'", "''") + "}'", 200)
        raise ValueError(
            "is PromQL that begins with {, of which YAML makes a mapping: put it in quotes, as in "
            f"{meant}"
        )


QuerySource = Annotated[
    QueryModel,
    BeforeValidator(_query_form),
    SchemaAlternative({"type": "string", "pattern": r"\S"}),
]
"""Either form; PromQL alone becomes the mapping with `query`."""
