"""A decision as it is kept in the record: what it was made from, and what became of it.

From what it was made from it can be computed again (`recompute`), to the same result.
"""

import json
from dataclasses import dataclass
from functools import cache

from autoscaler.core.breaker import held_back
from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History
from autoscaler.core.observation import Observation
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.core.typed_json import Checks, Reader, encoder_of, reader_of
from autoscaler.core.writes import WriteOutcome, intend, settle_write


@dataclass(frozen=True, slots=True)
class Inputs:
    """What `decide` takes; ``history`` is from before the decision.  Instants are Unix seconds."""

    observation: Observation
    history: History
    now: float
    stamp: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What a decision follows and what the configuration sets: seldom another one."""

    target: Target
    flags: Flags


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision in full.

    ``decision`` is as after the write, whose outcome is None if there was none.
    """

    rules: Rules
    inputs: Inputs
    decision: Decision
    write: WriteOutcome | None = None


@dataclass(frozen=True, slots=True)
class _Body:
    """What is written of an entry besides its rules, which many entries share."""

    inputs: Inputs
    decision: Decision
    write: WriteOutcome | None = None


class UnreadableEntryError(ValueError):
    """It is damaged, or of a version that wrote it otherwise; the text is a sentence."""


_body_encoder, _rules_encoder = encoder_of(_Body), encoder_of(Rules)
_decision_encoder = encoder_of(Decision)


def rules_to_json(rules: Rules) -> str:
    """Write rules; equal ones give equal texts."""
    return _rules_encoder.encode(rules)


def body_to_json(inputs: Inputs, decision: Decision, write: WriteOutcome | None) -> str:
    """Write all of an entry but its rules."""
    return _body_encoder.encode(_Body(inputs, decision, write))


def entry_from_json(rules: str, body: str) -> Entry:
    """Read an entry that was written as two texts; raises UnreadableEntryError."""
    try:
        read_rules: Rules = _reader(Rules)(json.loads(rules))
        read: _Body = _reader(_Body)(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise UnreadableEntryError(f"the entry cannot be read: {error}") from None
    return Entry(read_rules, read.inputs, read.decision, read.write)


@cache
def _reader(kind: type) -> Reader:
    return reader_of(kind, Checks(finite=False))


def recompute(entry: Entry) -> Decision:
    """Decide again from what an entry was made from; also what followed from hold and write."""
    target, inputs = entry.rules.target, entry.inputs
    decision, history = decide(
        target.spec,
        entry.rules.flags,
        inputs.observation,
        inputs.history,
        inputs.now,
        inputs.stamp,
        target.extensions,
    )
    hold = entry.decision.breaker
    if hold is not None:
        decision, history = held_back(decision, history, inputs.history, hold.server, hold.until)
    if entry.write is None:
        return decision
    # An earlier write that is still pending concerns only the history.
    history = intend(decision, history)
    return settle_write(target.spec, decision, entry.write, history, inputs.history, None)[0]


def is_same(one: Decision, other: Decision) -> bool:
    """Return whether two decisions are the same; a ratio of NaN is the same as another one."""
    return _decision_encoder.encode(one) == _decision_encoder.encode(other)
