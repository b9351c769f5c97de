"""What became of a write of the scale."""

from dataclasses import dataclass

from autoscaler.core.observation import Scale

PLANNED, NOT_LEADING = "planned", "not leading"


@dataclass(frozen=True, slots=True)
class Written:
    """The API server said yes; ``scale`` is its answer."""

    scale: Scale


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else changed the count between our read and our write; theirs stands."""

    scale: Scale
    uncertain: bool = False
    """Whether our own request may have landed before it."""


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Nothing was written, or it is not known whether; the message is for the operator."""

    message: str
    unknown: bool = False
    """Whether the request may have landed all the same."""


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The write was left out on purpose: in a plan, or because another process leads."""

    word: str = PLANNED


WriteOutcome = Written | Superseded | WriteFailed | NotWritten
