"""Completion of arguments in the user's shell."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer


def targets(context: typer.Context, incomplete: str) -> list[str]:
    """Return the targets of the file after ``-c`` that begin so; none where it cannot be read.

    NAMESPACE/NAME where that names one target, NAMESPACE/KIND/NAME where it does not, or where
    the user began so.
    """
    from autoscaler.config import ConfigError, load
    from autoscaler.config.loading import ANYWHERE

    file = context.params.get("config")
    given: Sequence[str] = context.params.get("targets") or ()
    if not isinstance(file, Path):
        return []
    try:
        config = load(file, lambda: ANYWHERE)
    except (ConfigError, OSError):
        return []
    shorts = {
        one.key: f"{one.namespace}/{one.spec.scale_target_ref.name}" for one in config.targets
    }
    counts = Counter(shorts.values())
    names = [short if counts[short] == 1 else key for key, short in shorts.items()]
    fitting = [name for name in names if name.startswith(incomplete)]
    fitting = fitting or [key for key in shorts if key.startswith(incomplete)]
    return [name for name in fitting if name not in given]
