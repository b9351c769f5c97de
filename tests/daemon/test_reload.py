"""A configuration that cannot be put in force is tried again; one with mistakes is not."""

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
from tests.telemetry.results import series_of
from tests.worlds.announced import Announced

GOOD = "prometheus: {{url: http://p:9090}}\nsyncPeriod: {period}\ntargets: []\n"


class Reloading(Announced):
    """A reload whose time the test says; ``refusals`` is what putting in force raises in turn."""

    def __init__(
        self, file: Path, *refusals: Exception, source: ConfigSource | None = None
    ) -> None:
        super().__init__()
        self.file = file
        self.tries: list[float] = []
        self._refusals = list(refusals)
        self._now = 1000.0
        self.write("15s")
        config = load(file)
        self.source = source or FileSource(config.path, config.sources)
        self.reload = Reload(config, self.source, self._put_in_force, self.announcements)

    def write(self, period: str) -> None:
        self.file.write_text(GOOD.format(period=period))

    def pass_(self, seconds: float, *, asked: bool = False) -> list[EventDict]:
        """Let so many seconds pass with a look in each, and return what was logged."""
        with capture_logs() as lines:
            for number in range(round(seconds)):
                self._now += 1.0
                self.reload.poll(self._now, asked=asked and number == 0)
        return lines

    def outcomes(self) -> dict[str, float]:
        """Return how many reloads had each outcome."""
        series = series_of(self.metrics, "autoscaler_reloads_total").items()
        return {labels[0][1]: count for labels, count in series}

    def told(self) -> tuple[bool, str]:
        return self.component(Component.RELOAD) or pytest.fail("nothing")

    def _put_in_force(self, config: Config) -> None:
        self.tries.append(config.sync_period)
        if self._refusals:
            raise self._refusals.pop(0)


HANGS = "a sync in hand does not end; it is tried again"


def hanging() -> HangingSyncError:
    """Return what a swap raises."""
    return HangingSyncError("a sync in hand does not end")


def test_what_cannot_be_put_in_force_now_is_tried_again(tmp_path: Path) -> None:
    """Every 30 s until it succeeds, told once; the configuration before stays meanwhile."""
    reload = Reloading(tmp_path / "autoscaler.yaml", hanging(), hanging(), hanging())
    reload.write("30s")
    lines = reload.pass_(4)
    assert [line["event"] for line in lines] == ["reload_failed"]
    assert HANGS in lines[0]["message"]
    assert reload.tries == [30.0]
    assert reload.reload.config.sync_period == 15.0
    assert reload.told()[0] is False
    assert "a sync in hand does not end" in reload.told()[1]
    assert reload.pass_(2 * RETRY_SECONDS) == []
    assert reload.tries == [30.0] * 3
    assert reload.outcomes() == {"succeeded": 0, "failed": 3}
    assert [line["event"] for line in reload.pass_(RETRY_SECONDS)] == ["reloaded"]
    assert reload.reload.config.sync_period == 30.0
    assert reload.told()[0] is True
    assert reload.outcomes() == {"succeeded": 1, "failed": 3}
    reload.pass_(3 * RETRY_SECONDS)
    assert len(reload.tries) == 4


def test_what_the_file_says_by_then_is_tried(tmp_path: Path) -> None:
    """A change meanwhile, and a signal, do not wait for the next try."""
    reload = Reloading(tmp_path / "autoscaler.yaml", hanging(), hanging())
    reload.write("30s")
    reload.pass_(4)
    reload.pass_(1, asked=True)
    reload.write("120s")
    reload.pass_(4)
    assert reload.tries == [30.0, 30.0, 120.0]
    assert reload.reload.config.sync_period == 120.0


def test_very_many_mistakes_are_few_lines_of_the_log(tmp_path: Path) -> None:
    """Some are logged and the rest is counted; the last good configuration stays in force."""
    reload = Reloading(tmp_path / "autoscaler.yaml")
    reload.file.write_text("prometheus: {url: http://p:9090}\ntargets: [" + "x, " * 5000 + "]\n")
    (line,) = reload.pass_(4)
    assert (line["event"], len(line["problems"]), line["more_problems"]) == (
        "reload_failed",
        20,
        81,
    )
    assert reload.reload.config.sync_period == 15.0


def test_a_file_with_mistakes_is_tried_when_it_changes(tmp_path: Path) -> None:
    """It ends the tries of the one before it, and is read once, since it says the same again."""
    reload = Reloading(tmp_path / "autoscaler.yaml", hanging())
    reload.write("30s")
    reload.pass_(4)
    reload.write("never")
    assert [line["event"] for line in reload.pass_(3 * RETRY_SECONDS)] == ["reload_failed"]
    assert reload.outcomes() == {"succeeded": 0, "failed": 2}
    assert reload.tries == [30.0]
    reload.write("120s")
    reload.pass_(4)
    assert reload.reload.config.sync_period == 120.0


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), OSError("no room")])
def test_a_defect_is_told_once_and_tried_again(tmp_path: Path, error: Exception) -> None:
    """Whatever prevented it may be over, and the daemon goes on in any case."""
    reload = Reloading(tmp_path / "autoscaler.yaml", error, error)
    reload.write("30s")
    assert [line["event"] for line in reload.pass_(4)] == ["reload_failed", "fault"]
    assert [line["event"] for line in reload.pass_(2 * RETRY_SECONDS)] == ["reloaded"]


def test_files_that_are_written_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a main file of before and an included one of after nothing ever comes into force."""
    reload = Reloading(tmp_path / "autoscaler.yaml")
    included = tmp_path / "more.yaml"

    def deploy(period: str) -> None:
        reload.file.write_text(GOOD.format(period=period) + "include: [more.yaml]\n")
        included.write_text(f"queries: {{q: period {period}}}\n")

    read_bytes, deployed = file_contents.read_bytes, ["120s"]

    def read(file: Path, most: int) -> bytes:
        content = read_bytes(file, most)
        if file == reload.file and deployed:
            deploy(deployed.pop())
        return content

    deploy("30s")
    monkeypatch.setattr(reading, "read_bytes", read)
    reload.pass_(1, asked=True)
    assert reload.tries == [120.0]
    reload.pass_(5)
    assert reload.tries == [120.0]


@pytest.mark.parametrize("late", ["token", "folder/token"])
def test_a_file_that_comes_late_needs_nobody(tmp_path: Path, late: str) -> None:
    """A configuration is refused for a secret that is not there yet, and read again once it is."""
    reload = Reloading(tmp_path / "autoscaler.yaml")
    named = GOOD.replace("http://p:9090", f"http://p:9090, bearerTokenFile: {late}")
    reload.file.write_text(named.format(period="30s"))
    assert [line["event"] for line in reload.pass_(60)] == ["reload_failed"]
    (tmp_path / late).parent.mkdir(exist_ok=True)
    (tmp_path / late).write_text("secret")
    assert [line["event"] for line in reload.pass_(5)] == ["reloaded"]
    assert reload.told()[0] is True
    (tmp_path / late).write_text("another")
    assert reload.pass_(5) == []


def test_what_waits_for_a_restart_is_told_until_it_is_taken_back(tmp_path: Path) -> None:
    """It is compared with what the daemon was started with, which runs on."""
    reload = Reloading(tmp_path / "autoscaler.yaml")

    def told(period: str, more: str) -> list[str]:
        reload.file.write_text(GOOD.format(period=period) + more)
        return [line["message"] for line in reload.pass_(4) if line["event"] == "needs_restart"]

    def reloaded() -> str:
        (line,) = (line for line in reload.pass_(1, asked=True) if line["event"] == "reloaded")
        return str(line["message"])

    late = "listen: 127.0.0.1:9191 -> :9999; this takes effect when the daemon starts again"
    assert told("15s", "listen: :9999\n") == [late]
    assert told("30s", "listen: :9999\n") == [late]
    assert reloaded() == "nothing has changed"
    reload.file.write_text(GOOD.format(period="30s"))
    taken_back, again = reload.pass_(4), reload.pass_(1, asked=True)
    assert [line["event"] for line in taken_back] == ["reloaded", "needs_no_restart"]
    assert [line["event"] for line in again] == ["reloaded"]


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    """The daemon goes on with the configuration before."""
    reload = Reloading(tmp_path / "autoscaler.yaml")
    named = GOOD.replace("http://p:9090", 'http://p:9090, bearerTokenFile: "a\\0b"')
    reload.file.write_text(named.format(period="30s"))
    assert [line["event"] for line in reload.pass_(5)] == ["reload_failed"]
    reload.write("30s")
    assert [line["event"] for line in reload.pass_(4)] == ["reloaded"]


def test_a_source_may_refuse_a_document_and_give_the_others(tmp_path: Path) -> None:
    """What is right comes into force; the log and the health name what is not, until it is."""

    class Documents:
        """Has another configuration at each look that it is told of."""

        def __init__(self) -> None:
            self.waiting: list[LoadedConfiguration] = []

        def changed(self) -> bool:
            return bool(self.waiting)

        def read(self) -> LoadedConfiguration:
            return self.waiting.pop()

    documents, file = Documents(), tmp_path / "autoscaler.yaml"
    reload = Reloading(file, source=documents)
    config = load(file)
    wrong = ConfigError([Problem("shop/web", None, "metrics", None, "is missing")])
    documents.waiting = [
        LoadedConfiguration(config.model_copy(update={"sync_period": 30.0}), {"shop/web": wrong})
    ]
    reloaded, refused = reload.pass_(1)
    assert (reloaded["event"], refused["event"]) == ("reloaded", "document_refused")
    assert refused["document"] == "shop/web"
    assert "metrics" in refused["message"]
    assert reload.tries == [30.0]
    assert reload.told() == (False, refused["message"])
    documents.waiting = [LoadedConfiguration(config)]
    assert [line["event"] for line in reload.pass_(1)] == ["reloaded"]
    assert reload.told() == (True, "the last reload succeeded")
