"""What the tests of transport share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Free only objects without references, as in a daemon, which collects garbage rarely."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
