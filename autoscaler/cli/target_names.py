"""Names of targets on the command line: the targets they select, and their completion.

A name is NAMESPACE/NAME or NAMESPACE/KIND/NAME, with `clusters` CLUSTER/NAMESPACE/NAME or
CLUSTER/NAMESPACE/KIND/NAME; the long form is the target's key. In the short form NAME is also the
name of the target's PromqlAutoscaler.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.target import Target, TargetName
from autoscaler.core.text import printable

_MOST_LISTED = 10
_SAFE_TO_COMPLETE = re.compile(r"[\w.:/-]+", re.ASCII)
"""Other names have a meaning in a shell or a terminal; no server accepts them."""


class UnknownTargetError(Exception):
    """Names that no target has; the text suggests targets, or lists those that exist."""


def chosen_targets(targets: Sequence[Target], names: Sequence[str]) -> tuple[Target, ...]:
    """Return the named targets, or all without a name; raises UnknownTargetError."""
    objects = {target.key: target.object_name for target in targets}
    keys = chosen(names, [*objects], objects)
    return tuple(target for target in targets if target.key in keys)


def chosen(
    names: Sequence[str], keys: Sequence[str], objects: Mapping[str, str] = {}
) -> frozenset[str]:
    """Return the keys of the names, or of all; ``objects`` are the objects' names by key."""
    if not names:
        return frozenset(keys)
    by_name: dict[str, set[str]] = {}
    for key in keys:
        parts = TargetName.parse(key)
        other = parts._replace(name=objects.get(key) or parts.name)
        for name in (key, parts.short, other.short):
            by_name.setdefault(name, set()).add(key)
    unknown = [name for name in dict.fromkeys(names) if name not in by_name]
    if unknown:
        sentences = (
            printable(sentence, LONGEST_SENTENCE) for sentence in _sentences(unknown, keys)
        )
        raise UnknownTargetError("\n".join(sentences))
    return frozenset(key for name in names for key in by_name[name])


def _sentences(unknown: Iterable[str], keys: Sequence[str]) -> Iterable[str]:
    """Yield a sentence for each name that is similar to a target's, and one for all others."""
    from autoscaler.rendering import wording

    shorts = list(dict.fromkeys(TargetName.parse(key).short for key in keys))
    others = []
    for name in unknown:
        suggested = wording.similar(_short(name, keys), shorts)
        if suggested:
            yield f"no target is called {name}; did you mean {' or '.join(suggested)}?"
        else:
            others.append(name)
    if others:
        more = len(keys) - _MOST_LISTED
        listed = ", ".join(keys[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
        there = f"there are: {listed}" if keys else "there are no targets"
        yield f"no target is called {', '.join(others)}; {there}"


def _short(name: str, keys: Sequence[str]) -> str:
    """Return an unknown name without its kind, if it has one."""
    longest = max((key.count("/") for key in keys), default=2)
    return TargetName.parse(name).short if name.count("/") >= longest else name


def _offered(options: Mapping[str, object]) -> Sequence[str]:
    file = options.get("config")
    if isinstance(file, Path):
        from autoscaler.config import ConfigError, load
        from autoscaler.config.loading import ANYWHERE

        with suppress(ConfigError, OSError):
            return [target.key for target in load(file, lambda: ANYWHERE).targets]
    elif "state_directory" in options:
        from autoscaler.config.settings import STATE_DIRECTORY
        from autoscaler.persistence.record import DirectoryRecord
        from autoscaler.persistence.record.rows import RecordError

        directory = options["state_directory"] or STATE_DIRECTORY
        with suppress(RecordError, OSError):
            return DirectoryRecord(Path(str(directory))).targets()
    return []


def complete(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the targets that begin with ``incomplete``.

    They come from the file after ``-c``, or from the record, for a command that reads the record. A
    name is the key if the short form is ambiguous, or does not match. Returns nothing if the file
    or the record cannot be read.
    """
    given: Sequence[str] = context.params.get("targets") or ()
    offered = [key for key in _offered(context.params) if _SAFE_TO_COMPLETE.fullmatch(key)]
    shorts = {key: TargetName.parse(key).short for key in offered}
    counts = Counter(shorts.values())
    names = [short if counts[short] == 1 else key for key, short in shorts.items()]
    matching = [name for name in names if name.startswith(incomplete)]
    matching = matching or [key for key in shorts if key.startswith(incomplete)]
    return [name for name in matching if name not in given]
