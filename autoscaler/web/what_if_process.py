"""The process of one rehearsal for a page: it takes a question on its input, and answers once.

It is a process of its own, so that neither its time nor its memory is that of the daemon, and syncs
go first.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_MEMORY = 512 << 20
"""Bytes of its address space."""
MOST_PROCESSOR_SECONDS = 10
"""It ends by itself after so many, should nobody wait for it any longer."""
_LOWEST_PRIORITY = 19
_ABOVE_TARGET = 2
"""The lines that stand before a target, where it is an entry of a configuration."""
_NAME = "target.yaml"
_PLACE = "targets[0]"


def main() -> None:
    """Answer the question on standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    limits = MOST_PROCESSOR_SECONDS, MOST_PROCESSOR_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, limits)
    with suppress(OSError):
        os.nice(_LOWEST_PRIORITY)
    sys.stdout.buffer.write(answer_to(json.load(sys.stdin.buffer)))


def answer_to(question: Mapping[str, Any]) -> bytes:
    """Return a `WhatIfAnswer`, or the `ProblemDetails` of why there is none, as JSON.

    ``question`` is made by `autoscaler.web.what_if`.
    """
    # ruff: noqa: PLC0415 - the limits are to hold while these are imported
    from autoscaler.config.problems import ConfigError
    from autoscaler.record.rows import RecordError
    from autoscaler.rehearsal.building import BuildError
    from autoscaler.web.answering import problem_of

    try:
        former = _target(_written_alone(question["inForce"]), question)
        target = _target(question["text"], question)
        if target.key != former.key:
            sentence = f"the YAML is of {target.key}, and not of {former.key}"
            return problem_of(422, sentence).encoded()
        return _rehearsed(former, target, question)
    except ConfigError as error:
        return _mistakes(error, question["text"].count("\n") + 1)
    except (BuildError, RecordError) as error:
        return problem_of(422, str(error)).encoded()


def _written_alone(parts: object) -> str:
    from autoscaler.documents import as_yaml

    return as_yaml(parts)


def _target(text: str, question: Mapping[str, Any]) -> Any:
    """Check the YAML of one target as `autoscaler validate` does.  Raises ConfigError."""
    from autoscaler.config import load
    from autoscaler.config.loading import ANYWHERE

    settings = {
        "prometheus": {
            "url": "http://127.0.0.1:9090",
            "servers": {name: {"url": "http://127.0.0.1:9090"} for name in question["servers"]},
        },
        "clusters": question["clusters"] or None,
        "syncPeriod": question["syncPeriod"],
    }

    def part(value: Any) -> Any:
        return settings | {"targets": value["targets"]}

    entry = "\n".join(["targets:", "-", *(f"  {line}" for line in text.split("\n"))])
    config = load(Path(_NAME), lambda: ANYWHERE, entry.encode(), part=part, uses_files=False)
    own = question["inForce"].get("cluster", "")
    return next((one for one in config.targets if one.cluster == own), config.targets[0])


def _rehearsed(former: Any, target: Any, question: Mapping[str, Any]) -> bytes:
    from autoscaler.adapters.record import DirectoryRecord
    from autoscaler.adapters.record.rehearsing import RecordedData
    from autoscaler.config.written import changed_parts
    from autoscaler.core.spec import Flags
    from autoscaler.core.text import rfc3339
    from autoscaler.documents import as_yaml
    from autoscaler.rehearsal.building import BuildError, built
    from autoscaler.rehearsal.changed_target import ChangedTargetData
    from autoscaler.rehearsal.rehearse import reach, rehearse
    from autoscaler.rendering.reasons import verdict
    from autoscaler.rendering.rehearsal import WhatIfAnswer, answer_of
    from autoscaler.settings.assumptions import Assumptions

    flags, record = Flags(**question["flags"]), DirectoryRecord(Path(question["directory"]))
    begin, end = question["begin"], question["end"]
    if next(record.samples(target.key, begin, end), None) is None:
        raise BuildError(f"nothing is recorded of it from {rfc3339(begin)} to {rfc3339(end)}")
    warm_up = max(reach(former, flags), reach(target, flags))
    recorded = RecordedData(record, begin - warm_up, end, flags)
    data = ChangedTargetData(recorded, lambda _: former)
    one = built(target, flags, data, Assumptions(), begin - warm_up)
    done = rehearse([one], begin, end, warm_up=warm_up, explain=lambda step: verdict(step.result))
    (found,) = answer_of(done).targets
    changed = changed_parts(former, target)
    return WhatIfAnswer(target=found, changed=as_yaml(changed) if changed else "").encoded()


def _mistakes(error: Any, lines: int) -> bytes:
    from autoscaler.rendering.answers import Mistake
    from autoscaler.web.answering import problem_of

    mistakes = [
        Mistake(
            line=None if one.line is None else min(max(one.line - _ABOVE_TARGET, 1), lines),
            path=one.path.removeprefix(_PLACE).removeprefix("."),
            value=one.value,
            problem=one.message,
        )
        for one in error.problems
    ]
    sentence = f"the YAML has {len(mistakes)} mistake{'s' * (len(mistakes) > 1)}"
    return problem_of(422, sentence, mistakes=mistakes).encoded()


if __name__ == "__main__":
    main()
