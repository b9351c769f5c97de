"""A page of many series that share one value, cheap to make at each scrape."""

from collections.abc import Callable, Iterable

from tests.worlds.prometheus.exporter import Exporter

_VALUE = "@"


class SeriesPage(Exporter):
    """Serves families of series; all series of a family have the same value at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._families: dict[str, tuple[str, Callable[[], float]]] = {}

    def publish(
        self, name: str, labels: Iterable[dict[str, str]], value: Callable[[], float]
    ) -> None:
        """Serve one series per set of labels from the next scrape on, and no others of the name."""
        text = "".join(f"{name}{{{_inner(label)}}} {_VALUE}\n" for label in labels)
        self._families[name] = (text, value)

    def change(self, name: str, value: float) -> None:
        """Give all series of a published family one constant value from the next scrape on."""
        text, _ = self._families[name]
        self._families[name] = (text, lambda: value)

    def page(self) -> bytes:
        """Return the page as it is served now."""
        families = list(self._families.values())
        return "".join(text.replace(_VALUE, repr(value())) for text, value in families).encode()


def _inner(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
