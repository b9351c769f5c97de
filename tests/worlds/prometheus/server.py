"""A real Prometheus on 127.0.0.1."""

import json
import os
import shutil
import signal
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest
import yaml

from tests.worlds.process import ServerProcess, free_port
from tests.worlds.waiting import wait_until

Sample = tuple[dict[str, str], float]
ScrapeTarget = str | Mapping[str, object]
"""`host:port`, a URL, or an entry of `scrape_configs` as it is."""


def required_program(name: str, package: str | None = None) -> str:
    """Return the path of a program that a test needs; skips without it, in CI fails."""
    path = shutil.which(name)
    if path is None:
        reason = f"no {name} on the PATH (Debian: apt-get install {package or name})"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and in CI these tests must run")
        pytest.skip(reason)
    return path


class PrometheusServer:
    """Prometheus with its data in a folder, scraping often; it dies with the tests.

    Scrape targets are `host:port`, URLs with a path and parameters (RabbitMQ's
    `http://127.0.0.1:15692/metrics/per-object`), or scrape configs.  The own labels of the
    first two win (`honor_labels`), so that an exporter can speak for many pods.  ``web_config``
    is the file of `--web.config.file`: https if it has a `tls_server_config`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        web_config: Path | None = None,
        flags: Sequence[str] = (),
        scrape_interval: str = "1s",
    ) -> None:
        self._folder = folder
        self._scrape_interval = scrape_interval
        self._web_config = web_config
        self._flags = list(flags)
        self._port = free_port()
        self._process: ServerProcess | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        tls = self._web_config and "tls_server_config" in self._web_config.read_text()
        return f"{'https' if tls else 'http'}://{self.address}"

    def start(self, scrape_targets: Sequence[ScrapeTarget] = (), rules: str | None = None) -> Self:
        """Start, and wait until it is ready to answer queries.

        ``rules`` is the text of a rules file, evaluated every second.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._write(scrape_targets, rules)
        argv = [
            required_program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self.address}",
            *self._flags,
        ]
        if self._web_config is not None:
            argv.append(f"--web.config.file={self._web_config}")
        self._process = ServerProcess(argv, self._folder / "prometheus.log")
        self._process.start()
        try:
            self._process.wait_ready(self._is_ready)
        except BaseException:
            self._process.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop it; its data stay in the folder, and `start` continues with them."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def reload(self, scrape_targets: Sequence[ScrapeTarget]) -> None:
        """Scrape other targets: what left stops at once, what came begins up to 10 s later."""
        assert self.pid is not None
        self._write(scrape_targets, None)
        os.kill(self.pid, signal.SIGHUP)

    def samples(self, promql: str, at: float | None = None) -> list[Sample]:
        """Answer an instant query (vector), without the adapter; for servers without web_config."""
        query = urllib.parse.urlencode({"query": promql} | ({} if at is None else {"time": at}))
        with urllib.request.urlopen(  # noqa: S310 - our own server
            f"{self.url}/api/v1/query?{query}", timeout=10
        ) as response:
            result = json.load(response)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def wait_for(self, promql: str, *, count: int = 1, timeout: float = 30.0) -> list[Sample]:
        """Wait until a query returns at least ``count`` series, and return them."""

        def enough() -> list[Sample]:
            samples = self.samples(promql)
            return samples if len(samples) >= count else []

        return wait_until(f"{count} series of {promql}", enough, timeout=timeout)

    def _write(self, scrape_targets: Sequence[ScrapeTarget], rules: str | None) -> Path:
        file = self._folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(self._config(scrape_targets, rules)))
        return file

    def _config(
        self, scrape_targets: Sequence[ScrapeTarget], rules: str | None
    ) -> dict[str, object]:
        config: dict[str, object] = {
            "global": {
                "scrape_interval": self._scrape_interval,
                "scrape_timeout": self._scrape_interval,
                "evaluation_interval": "1s",
            },
            "scrape_configs": [_scrape_config(target) for target in scrape_targets],
        }
        if rules is not None:
            file = self._folder / "rules.yml"
            file.write_text(rules)
            config["rule_files"] = [str(file)]
        return config

    def _is_ready(self) -> bool:
        if self._web_config is not None:
            # Without credentials it does not answer; the log also shows that it is ready.
            log = (self._folder / "prometheus.log").read_text(errors="replace")
            return "Server is ready to receive web requests" in log
        try:
            with urllib.request.urlopen(  # noqa: S310 - our own server
                f"{self.url}/-/ready", timeout=1
            ) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _scrape_config(target: ScrapeTarget) -> dict[str, object]:
    if not isinstance(target, str):
        return dict(target)
    url = urllib.parse.urlsplit(target if "//" in target else f"http://{target}/metrics")
    return {
        "job_name": target,
        "honor_labels": True,
        "scheme": url.scheme,
        "metrics_path": url.path or "/metrics",
        "params": urllib.parse.parse_qs(url.query),
        "static_configs": [{"targets": [url.netloc]}],
    }
