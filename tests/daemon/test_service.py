"""The daemon over a reload, in this process."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from autoscaler.config import load
from autoscaler.daemon.service import build
from autoscaler.daemon.service_manager import Signals
from tests.adapters.cluster.scripted import Answer, ScriptedServer
from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config


@pytest.fixture(autouse=True)
def _garbage_collection() -> Iterator[None]:
    """Collect as before, once the daemon is gone."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_what_a_reload_replaced_is_freed(tmp_path: Path) -> None:
    """Connections that refer to themselves are, though all was left out of collections."""
    signals = Signals()
    with ScriptedServer(Answer(404)) as server, ExitStack() as stack:
        document = {
            "prometheus": {"url": server.url},
            "kubernetes": {"kubeconfig": str(server.write_kubeconfig(tmp_path / "kubeconfig"))},
            "targets": [],
        }
        file = write_config(tmp_path / "autoscaler.yaml", document)
        loop = build(load(file), signals, stack)
        connections = loop.connections.current
        vars(connections)["themselves"] = connections
        replaced = weakref.ref(connections)
        del connections

        def reload() -> None:
            write_config(file, document | {"prometheus": {"url": f"{server.url}/other"}})
            try:
                wait_until("it is freed", lambda: replaced() is None)
            finally:
                signals.stop.set()

        operator = stack.enter_context(ThreadPoolExecutor(1))
        reloaded = operator.submit(reload)
        loop.run()
        reloaded.result()
        assert loop.reload.config.prometheus.url.endswith("/other")
