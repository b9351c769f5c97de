"""The types of single fields.  Each refuses with a sentence that says what would be right."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from autoscaler.config import durations
from autoscaler.core import quantity
from autoscaler.core.numbers import INT32_MAX, INT64_MAX


class Model(BaseModel):
    """A part of the document: camelCase keys, no unknown ones, strict types, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # Built at the first use, so that importing this package costs little.
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
    )


Item = TypeVar("Item")
Items = Annotated[tuple[Item, ...], Strict(strict=False)]
"""A list; strictness ends at the container, since YAML has no tuples."""

Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
PositiveCount = Annotated[int, Field(ge=1, le=INT32_MAX)]

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SEGMENT = r"(?!\.{1,2}$)[^/%]+"
_QUALIFIED_NAME = re.compile(
    r"(?:(?P<prefix>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_STANDARD_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
_NUMBER = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_UNIT = r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,4})?"
QUANTITY_PATTERN = rf"^\+?{_NUMBER}{_UNIT}$"
_NANO_PER_MILLI = 10**6
_UNITS = {
    *("/s", "ps", "rps", "qps", "req/s", "requests/s", "req", "requests", "messages", "msgs"),
    *("s", "sec", "seconds", "core", "cores", "cpu", "cpus"),
}
"""What people write after a number whose unit the metric has already."""
POSITIVE_QUANTITY_PATTERN = rf"^\+?(?=[0.]*[1-9]){_NUMBER}{_UNIT}$"


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _promql(text: str) -> str:
    if not text.strip():
        raise ValueError("must be PromQL, and is empty")
    return text


def _dns_label(text: str) -> str:
    if re.fullmatch(_DNS_LABEL, text) is None:
        raise ValueError(
            "must be a DNS label: at most 63 lower-case letters, digits and -, "
            "beginning and ending with a letter or digit"
        )
    return text


def _dns_subdomain(text: str) -> str:
    if len(text) > 253 or re.fullmatch(_DNS_SUBDOMAIN, text) is None:
        raise ValueError(
            "must be a DNS name: at most 253 lower-case letters, digits, - and ., "
            "beginning and ending with a letter or digit"
        )
    return text


def _segment(text: str) -> str:
    if re.fullmatch(_SEGMENT, text, re.DOTALL) is None:
        raise ValueError('must be a name: not empty, not . or .., without "/" and "%"')
    return text


def _api_version(text: str) -> str:
    if text.count("/") > 1:
        raise ValueError("must be GROUP/VERSION such as apps/v1, or v1 for the core group")
    return text


def _container_resource(text: str) -> str:
    """Check a name as the API does: a standard container resource or an extended resource."""
    form = _QUALIFIED_NAME.fullmatch(text)
    if form is not None:
        if form["prefix"] is None:
            if text in _STANDARD_RESOURCES or text.startswith("hugepages-"):
                return text
        elif "kubernetes.io/" in text or not text.startswith("requests."):
            return text
    raise ValueError(
        "must be cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource "
        "such as example.com/gpu"
    )


def quantity_text(value: object) -> str:
    """Return a quantity as text, from a YAML text or number.

    Raises ValueError with the sentence for the operator where it is no quantity.
    """
    text = value if isinstance(value, str) else _number_text(value)
    if text is None:
        raise ValueError("must be a quantity such as 30, 1.5, 500m, 2k or 1Gi")
    try:
        quantity.parse(text)
    except ValueError:
        raise ValueError(_quantity_advice(text)) from None
    return text


def _number_text(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _quantity_advice(text: str) -> str:
    advice = "is not a quantity: write a number with an optional suffix (n u m k M G T P E, "
    advice += "Ki Mi Gi Ti Pi Ei) or exponent, such as 500m, 1.5, 1Gi or 2e3"
    meant = _meant_quantity(text.strip())
    return f"{advice}; {meant}" if meant else advice


def _meant_quantity(text: str) -> str:
    """Say what was probably meant by a quantity with another unit, or with blanks or commas."""
    zeros = re.sub("[oO]", "0", text)
    if zeros != text and _is_quantity(zeros):
        return f"did you mean {zeros}, with zeros in place of the letter O?"
    form = re.fullmatch(r"([+-]?[0-9.]+)\s*([A-Za-zµ/]*)", text)
    if form is None or not _is_quantity(form[1]):
        digits = re.sub(r"(?<=[0-9])[,_' ](?=[0-9]{3}\b)", "", text)
        return f"did you mean {digits}?" if re.fullmatch(r"[0-9]+", digits) else ""
    number, unit = form[1], form[2]
    if unit.lower() in {"ms", "msec"}:
        return f"{number} milliseconds are {number}m of a metric in seconds"
    if unit == "m":
        return f"did you mean {number}m?"
    size = re.fullmatch(r"([kmgtpe])(i?)(?:b|bytes)?", unit, re.IGNORECASE)
    if size is None:
        return f"did you mean {number}?" if unit.lower() in _UNITS else ""
    prefix = size[1].upper()
    binary = f"{number}{prefix}i"
    return f"did you mean {binary if size[2] else f'{number}{prefix}'.replace('K', 'k')}" + (
        "?" if size[2] else f" or {binary}?"
    )


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _target_quantity(text: str) -> str:
    """Check the value of a target, which the controller takes in thousandths, as an int64."""
    nano = quantity.parse(text)
    if nano <= 0:
        raise ValueError("must be more than 0")
    if nano < _NANO_PER_MILLI:
        raise ValueError("must be at least 1m: targets are computed with in thousandths")
    if nano > INT64_MAX * _NANO_PER_MILLI:
        raise ValueError(
            "must be at most 9223372036854775807m (about 9.2P), the largest number that is "
            "computed with: no metric could reach it"
        )
    return text


def _not_negative(text: str) -> str:
    if quantity.parse(text) < 0:
        raise ValueError("must be 0 or more")
    return text


def _tolerance(value: object) -> float:
    """Read the flag: a number is that double itself, a text is a quantity."""
    if isinstance(value, str):
        try:
            nano = quantity.parse(value)
        except ValueError:
            raise ValueError("must be a number such as 0.1, or a quantity such as 100m") from None
        number = quantity.tolerance_value(nano)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        number = float(value)
    else:
        raise ValueError("must be a number such as 0.1")
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


@dataclass(frozen=True, slots=True)
class Between:
    """Reads a duration and holds it to bounds, in seconds."""

    low: float = 0.0
    high: float = math.inf
    above_zero: bool = False

    def __call__(self, value: object) -> float:
        """Return the seconds; raises ValueError with the sentence."""
        seconds = durations.of(value)
        if self.above_zero and seconds == 0:
            raise ValueError("must be longer than 0")
        if not self.low <= seconds <= self.high:
            low, high = durations.format_seconds(self.low), durations.format_seconds(self.high)
            raise ValueError(f"must be from {low} to {high}")
        return seconds


@dataclass(frozen=True, slots=True, eq=False)
class SchemaAlternative:
    """Says in the JSON Schema that a field also takes another form, which a validator turns."""

    schema: JsonSchemaValue

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Give both forms as alternatives."""
        return {"anyOf": [dict(self.schema), handler(core_schema)]}


_TEXT_SCHEMA: dict[str, object] = {"type": "string"}
_DURATION_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "pattern": durations.PATTERN},
            {"const": 0},
        ]
    }
)

POSITIVE_DURATION_SCHEMA = WithJsonSchema(
    {**_TEXT_SCHEMA, "pattern": durations.PATTERN.replace("^", "^(?=.*[1-9])", 1)}
)

Text = Annotated[str, AfterValidator(_filled), WithJsonSchema({**_TEXT_SCHEMA, "pattern": r"\S"})]
PromQL = Annotated[str, AfterValidator(_promql), WithJsonSchema({**_TEXT_SCHEMA, "pattern": r"\S"})]
DnsLabel = Annotated[
    str,
    AfterValidator(_dns_label),
    WithJsonSchema({**_TEXT_SCHEMA, "pattern": f"^{_DNS_LABEL}$"}),
]
DnsSubdomain = Annotated[
    str,
    AfterValidator(_dns_subdomain),
    WithJsonSchema({**_TEXT_SCHEMA, "pattern": f"^{_DNS_SUBDOMAIN}$", "maxLength": 253}),
]
Segment = Annotated[
    str,
    AfterValidator(_segment),
    WithJsonSchema({**_TEXT_SCHEMA, "pattern": f"^{_SEGMENT}$"}),
]
ApiVersion = Annotated[
    str,
    AfterValidator(_api_version),
    WithJsonSchema({**_TEXT_SCHEMA, "pattern": "^[^/]*(/[^/]*)?$"}),
]
ContainerResource = Annotated[
    str,
    AfterValidator(_container_resource),
    WithJsonSchema(
        {**_TEXT_SCHEMA, "pattern": "^(cpu|memory|ephemeral-storage|hugepages-.+|[^/]+/[^/]+)$"}
    ),
]
TargetQuantity = Annotated[
    str,
    BeforeValidator(quantity_text),
    AfterValidator(_target_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0.001, "maximum": INT64_MAX / 1000},
                {**_TEXT_SCHEMA, "pattern": POSITIVE_QUANTITY_PATTERN},
            ]
        }
    ),
]
_NOT_NEGATIVE_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {**_TEXT_SCHEMA, "pattern": QUANTITY_PATTERN},
        ]
    }
)
ToleranceQuantity = Annotated[
    str, BeforeValidator(quantity_text), AfterValidator(_not_negative), _NOT_NEGATIVE_SCHEMA
]
Tolerance = Annotated[float, BeforeValidator(_tolerance), _NOT_NEGATIVE_SCHEMA]
Duration = Annotated[float, BeforeValidator(Between()), _DURATION_SCHEMA]
LongerThanZero = Annotated[
    float, BeforeValidator(Between(above_zero=True)), POSITIVE_DURATION_SCHEMA
]
SyncPeriod = Annotated[float, BeforeValidator(Between(1.0, 3600.0)), POSITIVE_DURATION_SCHEMA]
