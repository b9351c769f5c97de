"""Samples of the past, so that a test need not wait for a range to be filled."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.adapters.prometheus.server import required_program
from tests.outages.loads import LoadExporter

Scraped = Mapping[str, list[LoadExporter]]
"""Exporters by job."""


def write_past(folder: Path, scraped: Scraped, begin: float, end: float, step: float) -> None:
    """Write blocks into a server's data folder: as if it had scraped from begin to end."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "past.txt"
    text.write_text("".join(_lines(scraped, begin, end, step)))
    promtool = required_program("promtool", "prometheus")
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")],
        check=True,
        capture_output=True,
    )


def _lines(scraped: Scraped, begin: float, end: float, step: float) -> Iterator[str]:
    for job, exporters in scraped.items():
        for exporter in exporters:
            own = {"job": job, "instance": exporter.address}
            for number in range(int((end - begin) / step)):
                instant = begin + number * step
                yield _line("up", own, 1.0, instant)
                for name, labels, value in exporter.at(instant):
                    yield _line(name, {**labels, **own}, value, instant)
    yield "# EOF\n"


def _line(name: str, labels: Mapping[str, str], value: float, instant: float) -> str:
    inner = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {value!r} {instant:.3f}\n"
