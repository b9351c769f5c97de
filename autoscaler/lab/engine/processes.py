"""A rehearsal divided over processes, each with its own part of the targets.

They are forked, so that data which are read already need not be sent to them.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from autoscaler.lab.engine.rehearse import Rehearsal

_POLL_SECONDS = 0.1


class LostProcessError(Exception):
    """A process of a rehearsal has died; the text is a sentence for the operator."""


Part = Callable[[Sequence[int], Callable[[float], object]], Rehearsal]
"""Rehearses the targets with these numbers, and tells each instant that it has reached."""


def in_processes(
    part: Part,
    targets: int,
    processes: int,
    progress: Callable[[float], object] = lambda _: None,
) -> Rehearsal:
    """Rehearse so many targets in so many processes; return all of it.

    ``progress`` is told the instant that the slowest process has reached.  An interrupt ends all
    of them, and what they have done is returned.  Raises LostProcessError if one of them dies, and
    what a part raises.
    """
    processes = max(1, min(processes, targets))
    if processes == 1:
        return part(range(targets), progress)
    context = multiprocessing.get_context("fork")
    reached = context.Array("d", processes, lock=False)
    shares = [range(number, targets, processes) for number in range(processes)]
    ends: list[tuple[Any, Connection]] = []
    for number, share in enumerate(shares):
        receiving, sending = context.Pipe(duplex=False)
        child = context.Process(target=_run, args=(part, share, sending, reached, number))
        child.start()
        sending.close()
        ends.append((child, receiving))
    parts = _gathered(ends, lambda: progress(min(reached)))
    return _merged(parts)


def _gathered(
    ends: Sequence[tuple[Any, Connection]], tell: Callable[[], object]
) -> list[Rehearsal]:
    """Wait for all processes; an interrupt is handed on to them once."""
    results: dict[int, Rehearsal] = {}
    interrupted = False
    try:
        while len(results) < len(ends):
            try:
                waiting = [end for number, (_, end) in enumerate(ends) if number not in results]
                for end in wait(waiting, _POLL_SECONDS):
                    number = next(at for at, (_, one) in enumerate(ends) if one is end)
                    result = ends[number][1].recv()
                    if isinstance(result, Exception):
                        raise result
                    results[number] = result
                tell()
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                for child, _ in ends:
                    with suppress(ProcessLookupError):
                        os.kill(child.pid, signal.SIGINT)
    except EOFError:
        raise LostProcessError(
            "a process of the rehearsal has died: is there enough memory?"
        ) from None
    finally:
        for child, end in ends:
            if len(results) < len(ends):
                child.terminate()
            child.join()
            end.close()
    return [results[number] for number in range(len(ends))]


def _run(part: Part, share: Sequence[int], end: Connection, reached: Any, number: int) -> None:
    """Do a part in a process of its own; only the first interrupt counts."""

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)

    def tell(instant: float) -> None:
        reached[number] = instant

    result: Rehearsal | Exception
    try:
        result = part(share, tell)
    except Exception as error:  # noqa: BLE001 - it is raised where the parts are gathered
        result = error
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end.send(result)
    end.close()


def _merged(parts: Sequence[Rehearsal]) -> Rehearsal:
    """Return the parts as one, with the targets sorted by their keys."""
    outcomes = (outcome for part in parts for outcome in part.outcomes)
    return Rehearsal(
        parts[0].begin,
        min(part.end for part in parts),
        tuple(sorted(outcomes, key=lambda one: one.key)),
        {key: value for part in parts for key, value in part.models.items()},
        {key: value for part in parts for key, value in part.assumed.items()},
        tuple(sentence for part in parts for sentence in part.refused),
    )
