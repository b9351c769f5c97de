"""The output of the demo: a live table on a terminal, else one line each second."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from autoscaler.demo.children import LogLine
from autoscaler.demo.queue import QueueState, Workers
from autoscaler.demo.story import Story

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 60
_DECISIONS = 6


class LoggedDecision(NamedTuple):
    """A line of the daemon, and when it was read, in seconds of the story."""

    elapsed: float
    message: str


@dataclass(slots=True)
class Progress:
    """What the demo has shown so far."""

    state: QueueState = field(default_factory=QueueState)
    queue: deque[int] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    ready: deque[int] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    decisions: deque[LoggedDecision] = field(default_factory=lambda: deque(maxlen=_DECISIONS))
    latest: str = ""
    peak_queue: int = 0
    peak_workers: int = 0

    @property
    def is_back_at_one(self) -> bool:
        """Whether the workers are back at one, after more."""
        return self.peak_workers > 1 and self.state.workers == Workers(1, 1)

    def add(self, state: QueueState, lines: Sequence[LogLine]) -> list[LoggedDecision]:
        """Add the state and the daemon's log lines; return the new decisions."""
        second = int(state.elapsed) > int(self.state.elapsed) or not self.queue
        self.state = state
        self.peak_queue = max(self.peak_queue, state.waiting)
        self.peak_workers = max(self.peak_workers, state.workers.ready)
        if second:
            self.queue.append(state.waiting)
            self.ready.append(state.workers.ready)
        news = []
        for line in lines:
            self.latest = line.message
            if line.changed:
                news.append(LoggedDecision(state.elapsed, line.message))
        self.decisions.extend(news)
        return news


Shown = Mapping[str, Progress]
"""By region; the only one has no name."""


Show = Callable[[Shown, Mapping[str, Sequence[LoggedDecision]]], object]
"""Shows the progress of each region and its new decisions."""


@contextmanager
def live(console: Console, story: Story) -> Iterator[Show]:
    """Draw a table on a terminal again and again; the last one stays."""
    with Live(console=console, auto_refresh=False) as shown:
        yield lambda progress, _: shown.update(picture(progress, story), refresh=True)


def plain(console: Console) -> Show:
    """Return a function that prints a line per region and second, and one per decision."""
    seconds: dict[str, int] = {}

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(progress: Shown, news: Mapping[str, Sequence[LoggedDecision]]) -> None:
        for region, latest in progress.items():
            state, named = latest.state, f"  {region}" if region else ""
            for decision in news[region]:
                tell(f"{decision.elapsed:5.0f} s{named}  autoscaler: {decision.message}")
            if int(state.elapsed) > seconds.get(region, -1):
                seconds[region] = int(state.elapsed)
                tell(
                    f"{state.elapsed:5.0f} s{named}  {state.phase:<6} "
                    f"{state.arrival_rate:4.0f} messages/s in"
                    f" {state.waiting:5d} waiting   workers {state.workers.ready} ready"
                    f" / {state.workers.desired} desired"
                )

    return show


def picture(progress: Shown, story: Story) -> Group:
    """Return the table for a moment of the story; several regions have fewer rows each."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    first, several = next(iter(progress.values())), len(progress) > 1
    state = first.state
    table.add_row("time", f"{state.elapsed:.0f} s", state.phase)
    if not several:
        capacity = state.workers.ready * story.worker_rate
        rate = f"{state.arrival_rate:.0f}"
        table.add_row("messages/s", rate, f"arrive; capacity {capacity:.0f}")
    for region, latest in progress.items():
        named, workers = f"{region} " if region else "", latest.state.workers
        waiting = Text(bars(latest.queue), style="yellow")
        table.add_row(f"{named}queue", str(latest.state.waiting), waiting)
        ready = Text(bars(latest.ready), style="green")
        table.add_row(f"{named}ready / desired", f"{workers.ready} / {workers.desired}", ready)
    log = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    log.add_column(justify="right", style="dim")
    log.add_column(ratio=1)
    for region, decision in _last_decisions(progress):
        named = f"{region}: " if region else ""
        log.add_row(f"{decision.elapsed:.0f} s", Text(named + decision.message))
    title = Text(
        "autoscaler demo: a queue, its workers, and the autoscaler's decisions", style="bold"
    )
    shown = (Text(), title, Text(), table, Text(), Text("decisions", style="bold"), log)
    if several:
        return Group(*shown)
    last = first.latest or "waiting for the first sync"
    return Group(*shown, Text.assemble(("now: ", "bold"), last))


def _last_decisions(progress: Shown) -> Sequence[tuple[str, LoggedDecision]]:
    """Return the last decisions of all regions, in their order."""
    made = [(region, each) for region, state in progress.items() for each in state.decisions]
    made.sort(key=lambda pair: pair[1].elapsed)
    return made[-_DECISIONS:]


def bars(values: Sequence[int]) -> str:
    """Return numbers as a line of bars; the largest has full height."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[(value * (len(_BARS) - 1) + top - 1) // top] for value in values)
