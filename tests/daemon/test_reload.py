"""A configuration that cannot take effect is tried again; one with mistakes is not."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from autoscaler import file_contents
from autoscaler.config import Config, ConfigError, load, reading
from autoscaler.config.problems import Problem
from autoscaler.daemon.reload import (
    RETRY_SECONDS,
    ConfigSource,
    FileSource,
    LoadedConfiguration,
    Reload,
)
from autoscaler.daemon.schedule import HangingSyncError
from autoscaler.telemetry.health import Component
from tests.narrowing import assert_parts, known
from tests.telemetry.results import series_of
from tests.worlds.announced import Announced

GOOD = "prometheus: {{url: http://p:9090}}\nsyncPeriod: {period}\ntargets: []\n"


class Reloading(Announced):
    """A reload on a clock of its own; ``refusals`` are what applying a configuration raises."""

    def __init__(
        self, folder: Path, *refusals: Exception, source: ConfigSource | None = None
    ) -> None:
        super().__init__()
        self.file = folder / "autoscaler.yaml"
        self.tries: list[float] = []
        self._refusals = list(refusals)
        self._now = 1000.0
        self.write("15s")
        config = load(self.file)
        self.source = source or FileSource(config.path, config.sources)
        self.reload = Reload(config, self.source, self._put_in_force, self.announcements)

    def write(self, period: str, more: str = "") -> None:
        self.file.write_text(GOOD.format(period=period) + more)

    def lines(self, seconds: float, *, asked: bool = False) -> list[EventDict]:
        """Let seconds pass with a look in each, and return what was logged."""
        with capture_logs() as lines:
            for number in range(round(seconds)):
                self._now += 1.0
                self.reload.poll(self._now, asked=asked and number == 0)
        return lines

    def events(self, seconds: float, *, asked: bool = False) -> list[str]:
        """Let seconds pass as well, and return the events of the lines."""
        return [line["event"] for line in self.lines(seconds, asked=asked)]

    def outcomes(self) -> dict[str, float]:
        """Return how many reloads had each outcome."""
        series = series_of(self.metrics, "autoscaler_reloads_total").items()
        return {labels[0][1]: count for labels, count in series}

    @property
    def period(self) -> float:
        """The sync period that is in force."""
        return self.reload.config.sync_period

    @property
    def state(self) -> tuple[bool, str]:
        return known(self.component(Component.RELOAD))

    def _put_in_force(self, config: Config) -> None:
        self.tries.append(config.sync_period)
        if self._refusals:
            raise self._refusals.pop(0)


RELOAD_FAILED = "reload_failed"
"""The event of a configuration that does not take effect."""


def hanging() -> HangingSyncError:
    """Return what a swap raises."""
    return HangingSyncError("it hangs")


def test_a_configuration_that_cannot_take_effect_is_tried_again(tmp_path: Path) -> None:
    reload = Reloading(tmp_path, hanging(), hanging(), hanging())
    reload.write("30s")
    (line,) = reload.lines(4)
    assert (line["event"], line["log_level"]) == (RELOAD_FAILED, "error")
    assert_parts(line["message"], "it hangs")
    assert (reload.tries, reload.period) == ([30.0], 15.0)
    ok, message = reload.state
    assert not ok
    assert_parts(message, "it hangs")
    assert reload.events(2 * RETRY_SECONDS) == []
    assert reload.tries == [30.0] * 3
    assert reload.outcomes() == {"succeeded": 0, "failed": 3}
    assert reload.events(RETRY_SECONDS) == ["reloaded"]
    assert (reload.period, reload.state[0]) == (30.0, True)
    assert reload.outcomes() == {"succeeded": 1, "failed": 3}
    reload.events(3 * RETRY_SECONDS)
    assert len(reload.tries) == 4


def test_a_change_and_a_signal_do_not_wait_for_the_next_try(tmp_path: Path) -> None:
    reload = Reloading(tmp_path, hanging(), hanging())
    reload.write("30s")
    reload.events(4)
    reload.events(1, asked=True)
    reload.write("120s")
    reload.events(4)
    assert (reload.tries, reload.period) == ([30.0, 30.0, 120.0], 120.0)


def test_only_the_first_of_very_many_mistakes_are_logged(tmp_path: Path) -> None:
    reload = Reloading(tmp_path)
    reload.file.write_text("prometheus: {url: http://p:9090}\ntargets: [" + "x, " * 5000 + "]\n")
    (line,) = reload.lines(4)
    assert line["event"] == RELOAD_FAILED
    assert (len(line["problems"]), line["more_problems"]) == (20, 81)
    assert reload.period == 15.0


@pytest.mark.parametrize(
    "mistake",
    [
        GOOD.format(period="never"),
        # A name that no file can have.
        'prometheus: {url: http://p:9090, bearerTokenFile: "a\\0b"}\ntargets: []\n',
    ],
)
def test_a_file_with_mistakes_is_read_again_only_when_it_changes(
    tmp_path: Path, mistake: str
) -> None:
    reload = Reloading(tmp_path, hanging())
    reload.write("30s")
    reload.events(4)
    reload.file.write_text(mistake)
    assert reload.events(3 * RETRY_SECONDS) == [RELOAD_FAILED]
    assert reload.outcomes() == {"succeeded": 0, "failed": 2}
    assert reload.tries == [30.0]
    reload.write("120s")
    reload.events(4)
    assert reload.period == 120.0


@pytest.mark.parametrize("error", [RuntimeError("no thread"), OSError("no room")])
def test_a_defect_is_logged_once_and_tried_again(tmp_path: Path, error: Exception) -> None:
    reload = Reloading(tmp_path, error, error)
    reload.write("30s")
    assert reload.events(4) == [RELOAD_FAILED, "fault"]
    assert reload.events(2 * RETRY_SECONDS) == ["reloaded"]


def test_files_that_change_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old main file never takes effect with a new included one."""
    reload = Reloading(tmp_path)
    included = tmp_path / "more.yaml"

    def deploy(period: str) -> None:
        reload.write(period, "include: [more.yaml]\n")
        included.write_text(f"queries: {{q: period {period}}}\n")

    read_bytes, deployed = file_contents.read_bytes, ["120s"]

    def read(file: Path, most: int) -> bytes:
        content = read_bytes(file, most)
        if file == reload.file and deployed:
            deploy(deployed.pop())
        return content

    deploy("30s")
    monkeypatch.setattr(reading, "read_bytes", read)
    for seconds, asked in ((1, True), (5, False)):
        reload.events(seconds, asked=asked)
        assert reload.tries == [120.0]


@pytest.mark.parametrize("late", ["token", "folder/token"])
def test_a_secret_file_that_comes_late_is_noticed(tmp_path: Path, late: str) -> None:
    reload = Reloading(tmp_path)
    named = GOOD.replace("http://p:9090", f"http://p:9090, bearerTokenFile: {late}")
    reload.file.write_text(named.format(period="30s"))
    assert reload.events(60) == [RELOAD_FAILED]
    (tmp_path / late).parent.mkdir(exist_ok=True)
    (tmp_path / late).write_text("secret")
    assert reload.events(5) == ["reloaded"]
    assert reload.state[0]
    (tmp_path / late).write_text("another")
    assert reload.events(5) == []


def test_a_change_that_needs_a_restart_is_a_warning_until_it_is_undone(tmp_path: Path) -> None:
    reload = Reloading(tmp_path)
    for period in ("15s", "30s"):
        reload.write(period, "listen: :9999\n")
        (late,) = (line for line in reload.lines(4) if line["event"] == "needs_restart")
        assert late["log_level"] == "warning"
        assert_parts(late["message"], "listen: 127.0.0.1:9191 -> :9999")
    (unchanged,) = (line for line in reload.lines(1, asked=True) if line["event"] == "reloaded")
    assert (unchanged["added"], unchanged["changed"], unchanged["settings"]) == (0, 0, [])
    reload.write("30s")
    assert reload.events(4) == ["reloaded", "needs_no_restart"]
    assert reload.events(1, asked=True) == ["reloaded"]


def test_a_source_may_refuse_a_document_and_give_the_others(tmp_path: Path) -> None:
    class Documents:
        """Has another configuration at each look that it is told of."""

        def __init__(self) -> None:
            self.waiting: list[LoadedConfiguration] = []

        def changed(self) -> bool:
            return bool(self.waiting)

        def read(self) -> LoadedConfiguration:
            return self.waiting.pop()

    documents = Documents()
    reload = Reloading(tmp_path, source=documents)
    config = reload.reload.config
    wrong = ConfigError([Problem("shop/web", None, "metrics", None, "is missing")])
    documents.waiting = [
        LoadedConfiguration(config.model_copy(update={"sync_period": 30.0}), {"shop/web": wrong})
    ]
    reloaded, refused = reload.lines(1)
    assert (reloaded["event"], refused["event"]) == ("reloaded", "document_refused")
    assert (refused["log_level"], refused["document"]) == ("error", "shop/web")
    assert_parts(refused["message"], "metrics")
    assert reload.tries == [30.0]
    assert reload.state == (False, refused["message"])
    documents.waiting = [LoadedConfiguration(config)]
    assert reload.events(1) == ["reloaded"]
    assert reload.state[0]
