"""The command line of `benchmarks.agreement`."""

import argparse
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agreement.workloads import HOW_MANY

WARM_UP = 6.0
"""Minutes: more than the longest window, of which the daemon knows nothing when it starts."""


@dataclass(frozen=True)
class Options:
    """What to run, and where what was seen is left.

    `flags` are of kube-controller-manager.
    """

    minutes: float
    warm_up: float
    targets: int
    planted: bool
    keda: bool
    flags: Sequence[str]
    seed: int
    out: Path | None


def parse(arguments: Sequence[str], description: str | None) -> Options:
    """Return what the command line asks for, with a new seed unless it names one."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=30.0, metavar="M", help="how long (30)")
    add("--warm-up", type=float, default=WARM_UP, metavar="M", help=f"before that ({WARM_UP:g})")
    add(
        "--targets",
        type=int,
        default=HOW_MANY,
        choices=range(1, HOW_MANY + 1),
        metavar="N",
        help=f"the first of the kinds ({HOW_MANY})",
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--planted", action="store_true", help="with differences made on purpose")
    either.add_argument(
        "--keda", action="store_true", help="with KEDA, which serves all External metrics"
    )
    add(
        "--controller-flag",
        action="append",
        default=[],
        metavar="FLAG",
        help="of kube-controller-manager, such as --horizontal-pod-autoscaler-tolerance=0.3",
    )
    add("--seed", type=int, metavar="SEED", help="of the loads; printed")
    add("--out", type=Path, metavar="FOLDER", help="leave there what both sides did")
    given = parser.parse_args(arguments)
    return Options(
        minutes=given.minutes,
        warm_up=given.warm_up,
        targets=given.targets,
        planted=given.planted,
        keda=given.keda,
        flags=given.controller_flag,
        seed=secrets.randbelow(1_000_000) if given.seed is None else given.seed,
        out=given.out,
    )
