"""Work that goes on beside a test, until a block ends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run something on a thread; when the block ends it is told by ``stop``, and waited for."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
