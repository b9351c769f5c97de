"""What the page of a large fleet costs: `python -m benchmarks.pages`.

The fleet is that of the browser tests, each target with its record in memory.  Prints how long the
daemon takes to make the page, how large it is on the wire, how long a browser takes to show it, and
how much longer 10,000 decisions take while a client asks for it once a second.
"""

import argparse
import gzip
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler import clock
from tests.worlds.browsing import chromium, tab
from tests.worlds.pages.fleets import NOW, Fleet, many
from tests.worlds.pages.serving import serving

_TIMES = 7


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=10_000)
    count: int = parser.parse_args().targets
    clock.wall = lambda: NOW
    with tempfile.TemporaryDirectory() as folder:
        fleet = many(Path(folder), count)
        with serving(fleet) as served:
            sizes = [len(fetched(served.url)) for _ in range(2)]
            alone = median(lambda: fetched(served.url))
            shown = in_browser(served.url)
            quiet = median(lambda: sync(fleet))
            with_readers = median_while(served.url, lambda: sync(fleet))
            (length,) = set(sizes)
    print(f"{count} targets: the page is there after {alone * 1000:.0f} ms, with {length} bytes")
    print(f"a browser shows it after {shown * 1000:.0f} ms")
    print(
        f"{count} decisions take {quiet:.2f} s, and {with_readers:.2f} s while somebody asks for "
        f"the page once a second: {with_readers / quiet:.2f} times"
    )
    print(f"to make the page takes {alone / quiet:.2f} times as long as these decisions")


def fetched(url: str) -> bytes:
    """Return the page of all targets as it comes over the wire."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", "/", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200 or b"</html>" not in gzip.decompress(body):
        raise RuntimeError(f"the page has the status {answer.status}")
    return body


def in_browser(url: str) -> float:
    """Return the seconds from the address to the last row, in a browser that runs already."""
    with chromium() as browser, tab(browser, url) as page:

        def show() -> None:
            page.page.goto(f"{url}/")
            page.page.locator("table.fleet tbody tr").last.wait_for()

        return median(show)


def sync(fleet: Fleet) -> None:
    """Decide all targets once."""
    for player in fleet.players:
        player.sync(NOW, 60.0)


def median(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes, which is made a few times."""
    seconds = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def median_while(url: str, call: Callable[[], object]) -> float:
    """Return the same while the page is asked for once a second."""
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(1.0):
            fetched(url)

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        return median(call)
    finally:
        stop.set()
        reader.join()


if __name__ == "__main__":
    main()
