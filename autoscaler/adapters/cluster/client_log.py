"""Keeps the official client's own words off stderr."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_client() -> Iterator[None]:
    """Drop what the client logs while it reads a kubeconfig or runs its exec plugin.

    It calls `logging.error` with what the plugin printed, which writes to stderr where nobody
    set logging up, and even sets it up.  A sentence of ours tells of the fault instead.
    """
    root = logging.getLogger()
    # With a handler there logging does not set itself up.
    handler = logging.NullHandler()
    # An instance for each use: several threads may be here.
    others = _NotTheClient()
    root.addHandler(handler)
    root.addFilter(others)
    try:
        yield
    finally:
        root.removeFilter(others)
        root.removeHandler(handler)


class _NotTheClient(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.module != "kube_config"
