"""What a gap in the samples makes of `rate()`: `python -m benchmarks.gaps`.

Prints, for a counter that always grows alike, the lowest reading of `rate(x[RANGE])` once the
samples are back, in percent of the truth, and from which gap on it is off by more than the
tolerance.  Prometheus' own `promtool` works it out, from written samples and at every second,
so that no time passes.
"""

import argparse
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.tables import markdown

TOLERANCE = 0.1
RANGES: Mapping[int, Sequence[int]] = {30: (5, 15), 120: (5, 15, 30), 300: (5, 15, 30)}
"""Seconds of range, and between scrapes."""
GAPS = (15, 30, 60, 120, 180, 360)
"""For how many seconds nothing is scraped."""

STEP_MS = 250
"""Milliseconds from one reading to the next."""
STEP = STEP_MS / 1000

_GOT = re.compile(r"got: \{\} (\S+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is read of a counter with one gap; shares are of the truth, times are in seconds.

    ``after`` is the lowest `rate()` since the first sample behind the gap and ``within`` the
    lowest of the gap itself, in which it is ``empty`` for so long.  ``instant_empty`` is how long
    the counter by itself is.
    """

    after: float
    within: float
    empty: float
    instant_empty: float


def outcomes(seconds: int, interval: int, losts: Sequence[int], *, stale: bool) -> list[Outcome]:
    """Return what becomes of `rate(x[seconds])` where so many scrapes in a row are lost.

    ``stale`` says whether Prometheus itself was there, so that it noted the end of the series.
    """
    found = iter(_ask([_test(seconds, interval, lost, stale=stale) for lost in losts]))
    return [
        # Nothing is read for an instant, or for all of them.
        Outcome(
            next(found),
            next(found),
            lost * interval - next(found) * STEP,
            lost * interval - next(found) * STEP,
        )
        for lost in losts
    ]


def smallest_gap(seconds: int, interval: int, tolerance: float = TOLERANCE) -> int | None:
    """Return how many lost scrapes take the reading below the tolerance, if any do."""
    losts = range(1, math.ceil(tolerance * seconds / interval) + 2)
    found = zip(losts, outcomes(seconds, interval, losts, stale=False), strict=True)
    return next((lost for lost, outcome in found if outcome.after < 1 - tolerance), None)


def _test(seconds: int, interval: int, lost: int, *, stale: bool) -> Mapping[str, object]:
    """Return a test of a counter that grows by one a second, in promtool's words."""
    before = seconds // interval + 2
    # The first sample behind the gap.
    back = (before + lost) * interval
    gap = ["stale", *(["_"] * (lost - 1))] if stale else ["_"] * lost
    values = [f"0+{interval}x{before - 1}", *gap, f"{back}+{interval}x{before}"]
    # From the first scrape that is lost to the last instant before the one that is not.
    lasting = f"[{lost * interval * 1000 - STEP_MS}ms:{STEP_MS}ms]"
    rate, end = f"rate(x[{seconds}s])", back * 1000 - STEP_MS
    asked = [
        (f"min_over_time({rate}[{seconds}s:{STEP_MS}ms])", (back + seconds) * 1000),
        (f"min_over_time({rate}{lasting})", end),
        (f"count_over_time({rate}{lasting})", end),
        (f"count_over_time(x{lasting})", end),
    ]
    return {
        "interval": f"{interval}s",
        "input_series": [{"series": "x", "values": " ".join(values)}],
        "promql_expr_test": [
            # promtool tells what it got where something else was expected.
            {
                "expr": f"sum({expression}) or vector(0)",
                "eval_time": f"{at}ms",
                "exp_samples": [],
            }
            for expression, at in asked
        ],
    }


def _ask(tests: Sequence[Mapping[str, object]]) -> list[float]:
    """Have promtool evaluate all expressions, and return what it got."""
    promtool = shutil.which("promtool")
    if promtool is None:
        raise SystemExit("no promtool on the PATH (Debian: apt-get install prometheus)")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gaps.yaml"
        # It loads the samples up to the last evaluation of rules before an expression's instant.
        document = {"rule_files": [], "evaluation_interval": f"{STEP_MS}ms", "tests": list(tests)}
        file.write_text(yaml.safe_dump(document))
        ran = subprocess.run(
            [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
        )
    return [float(value) for value in _GOT.findall(ran.stdout + ran.stderr)]


def rows() -> Iterator[list[str]]:
    """Yield the lines of the table."""
    for seconds, intervals in RANGES.items():
        for interval in intervals:
            smallest = smallest_gap(seconds, interval)
            # A gap that is no multiple of the interval may lose one scrape more.
            losts = [-(-gap // interval) for gap in GAPS]
            found = outcomes(seconds, interval, losts, stale=False)
            cells = [f"{outcome.after * 100:.0f}" for outcome in found]
            first = "never" if smallest is None else f"{smallest}"
            yield [f"{seconds} s", f"{interval} s", *cells, first]


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    lowest = [f"{gap} s" for gap in GAPS]
    head = [
        "range",
        "scraped every",
        *lowest,
        "lost scrapes in a row until it is more than 10 % low",
    ]
    print(markdown(head, list(rows())))


if __name__ == "__main__":
    main()
