"""Values that have to be there, or of a type, for what is asserted of them."""

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Return a value, which has to be there."""
    assert value is not None
    return value


def instance(of: type[T], value: object) -> T:
    """Return a value, which has to be of a type."""
    assert isinstance(value, of), value
    return value


def assert_parts(message: object, *parts: str) -> None:
    """Check the values that a text, or the message of a failure, must have."""
    assert [part for part in parts if part not in getattr(message, "message", str(message))] == []
