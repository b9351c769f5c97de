"""The states of targets, the worst first, and their words."""

from autoscaler.rendering.verdict import State

AT_MAXIMUM = "at-maximum"
"""What a filter calls targets at their maximum that ask for more; their state is another word."""

WORDS = {
    State.FAILING: "failing",
    State.CONTESTED: "contested",
    State.UNKNOWN: "not synced yet",
    State.LIMITED: "limited",
    State.HELD: "held",
    State.DISABLED: "disabled",
    State.PAUSED: "paused",
    State.CONTROLLED: "controlled",
    State.IDLE: "idle",
    State.OK: "ok",
}


def word(state: State | str) -> str:
    """Return the word for a state, also of one that an older version recorded."""
    return WORDS.get(State(state), str(state)) if state in WORDS else str(state)
