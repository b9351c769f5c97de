"""A spec as the API server returns it, to compare with recorded answers."""

from pydantic import BaseModel, JsonValue

from autoscaler import quantities
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec


def defaulted(spec: HorizontalPodAutoscalerSpec) -> dict[str, JsonValue]:
    """Return the spec as the API server would: defaulted, camelCase, quantities canonical."""
    result = _json(spec)
    result.pop("namespace", None)
    return result


_OMITTED_EMPTY = {"apiVersion", "matchLabels", "matchExpressions", "values"}
_QUANTITIES = {"value", "averageValue", "tolerance"}


def _json(part: BaseModel) -> dict[str, JsonValue]:
    result: dict[str, JsonValue] = {}
    for name, field in type(part).model_fields.items():
        key, value = field.alias or name, getattr(part, name)
        if value is None or name == "query" or (not value and key in _OMITTED_EMPTY):
            continue
        if isinstance(value, BaseModel):
            result[key] = _json(value)
        elif isinstance(value, tuple):
            result[key] = [_json(v) if isinstance(v, BaseModel) else v for v in value]
        elif key in _QUANTITIES and isinstance(value, str):
            result[key] = _canonical(value)
        else:
            result[key] = value
    return result


def _canonical(text: str) -> str:
    """Return a quantity in the canonical form of its own notation, as the API server stores it."""
    milli = quantities.parse_fine(text)
    if text.lower().partition("e")[2].lstrip("+-").isdigit():
        nano, exponent = quantities.parse_quantity(text), -9
        while nano and nano % 1000 == 0:
            nano, exponent = nano // 1000, exponent + 3
        return f"{nano}e{exponent}" if nano and exponent else f"{nano}"
    if text.endswith("i") and milli % 1000 == 0:
        return quantities.format_milli(int(milli), binary=True)
    return quantities.format_fine(milli)
