"""The past of a real Prometheus: samples written into its data folder before it starts."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.worlds.prometheus.exporter import series_of
from tests.worlds.prometheus.server import required_program


def write_samples(folder: Path, lines: Iterable[str]) -> None:
    """Write blocks into a server's folder, as if it had scraped the samples of `sample_line`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "past.txt"
    text.write_text("".join((*lines, "# EOF\n")))
    promtool = required_program("promtool", "prometheus")
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")],
        check=True,
        capture_output=True,
    )


def sample_line(name: str, labels: Mapping[str, str], value: float, instant: float) -> str:
    """Return one sample, in OpenMetrics."""
    return f"{series_of(name, labels)} {value!r} {instant:.3f}\n"
