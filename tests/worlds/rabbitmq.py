"""A real RabbitMQ on 127.0.0.1, with its Prometheus and management plugins."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import requests

from tests.worlds.process import ServerProcess, free_port
from tests.worlds.prometheus.server import required_program

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's unwrapped script; the one on the PATH insists on the user rabbitmq."""


class RabbitMQ:
    """A broker with its data in a folder, and its Erlang port mapper; both die with the tests."""

    def __init__(self, folder: Path) -> None:
        required_program("epmd")
        self._folder = folder
        self._management = free_port()
        self._exporter = free_port()
        ports = free_port()
        self._mapper = ServerProcess(
            [shutil.which("epmd") or "epmd", "-port", str(ports), "-address", "127.0.0.1"],
            folder / "epmd.log",
        )
        (folder / "enabled_plugins").write_text("[rabbitmq_management, rabbitmq_prometheus].\n")
        (folder / "rabbitmq.conf").write_text(self._configuration())
        environment = {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(ports),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"rabbit{ports}@localhost",
            "RABBITMQ_NODE_PORT": str(free_port()),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"
            ),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            # The script then becomes the broker, so that a signal reaches it.
            "RUNNING_UNDER_SYSTEMD": "1",
        }
        settings = [f"{name}={value}" for name, value in environment.items()]
        self._broker = ServerProcess(
            ["/usr/bin/env", *settings, str(_SERVER)], folder / "rabbitmq.log"
        )
        self._session = requests.Session()
        self._session.auth = ("guest", "guest")

    @property
    def address(self) -> str:
        """Where the plugin `rabbitmq_prometheus` listens."""
        return f"127.0.0.1:{self._exporter}"

    def declare(self, queue: str) -> None:
        self._call("PUT", f"queues/%2F/{queue}", {"durable": True})

    def publish(self, queue: str, messages: int) -> None:
        body = {
            "properties": {},
            "routing_key": queue,
            "payload": "work",
            "payload_encoding": "string",
        }
        for _ in range(messages):
            self._call("POST", "exchanges/%2F/amq.default/publish", body)

    def consume(self, queue: str, messages: int) -> int:
        """Take messages out of a queue for good; return how many there were."""
        body = {"count": messages, "ackmode": "ack_requeue_false", "encoding": "auto"}
        taken: list[object] = self._call("POST", f"queues/%2F/{queue}/get", body).json()
        return len(taken)

    def __enter__(self) -> Self:
        self._mapper.start()
        self._broker.start()
        self._broker.wait_ready(self._serves)
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._broker.stop()
        self._mapper.stop()

    def _configuration(self) -> str:
        return "\n".join(
            (
                "listeners.tcp = none",
                "management.tcp.ip = 127.0.0.1",
                f"management.tcp.port = {self._management}",
                "prometheus.tcp.ip = 127.0.0.1",
                f"prometheus.tcp.port = {self._exporter}",
                "collect_statistics_interval = 500",
                "",
            )
        )

    def _call(self, method: str, path: str, body: Mapping[str, object]) -> requests.Response:
        answer = self._session.request(
            method, f"http://127.0.0.1:{self._management}/api/{path}", json=body, timeout=10
        )
        answer.raise_for_status()
        return answer

    def _serves(self) -> bool:
        try:
            self._session.get(f"http://127.0.0.1:{self._management}/api/overview", timeout=2)
            return requests.get(f"http://{self.address}/metrics", timeout=2).ok
        except requests.RequestException:
            return False
