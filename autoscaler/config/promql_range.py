"""How far a PromQL expression looks back: its longest chain of ranges and offsets."""

import re

from autoscaler.config import durations

_DURATION = r"(?:\d+(?:ms|[smhdwy]))+|\d+(?:\.\d+)?"

_TOKEN = re.compile(
    r"""(?P<skip>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\#[^\n]*|\s+)"""
    rf"|\[\s*(?P<range>{_DURATION})\s*(?::[^\]]*)?\]"
    rf"|offset\s+(?P<offset>{_DURATION})\b"
    r"|(?P<open>[({])|(?P<close>[)}])|(?P<other>\w+|.)",
    re.DOTALL,
)


_OF_THE_LAST_SAMPLES = frozenset({"last_over_time", "irate", "idelta"})
"""Functions that look at the end of their range only: what was lost before makes no difference."""


def range_of(promql: str) -> float:
    """Return the seconds before its evaluation that an expression may take samples from.

    0 for an instant selector: the lookback of Prometheus is not counted, since a series ends with
    the first scrape that fails.  A range after a closing parenthesis is a subquery's, and begins
    where the ranges inside begin.
    """
    longest = [0.0]
    callers = [""]
    before = 0.0
    """How far that looks back which the next range or offset belongs to."""
    word = ""
    for token in _TOKEN.finditer(promql):
        kind = token.lastgroup
        if kind == "skip":
            continue
        if kind == "open":
            longest.append(0.0)
            callers.append(word)
            before, word = 0.0, ""
            continue
        word = token[0] if kind == "other" else ""
        if kind == "close" and len(longest) > 1:
            before = longest.pop()
            callers.pop()
        elif kind == "range" and callers[-1] in _OF_THE_LAST_SAMPLES:
            pass
        elif kind in {"range", "offset"}:
            text = token[kind]
            # Prometheus also takes plain numbers, of seconds.
            before += durations.parse(text) if text[-1].isalpha() else float(text)
        else:
            before = 0.0
        longest[-1] = max(longest[-1], before)
    return max(longest)
