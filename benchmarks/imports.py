"""What it costs to import broken manifests: `python -m benchmarks.imports --count 100000 FILE...`.

Mutates the documents of the files, and of the tests, and imports each by itself.  Prints how many
came out how, milliseconds of the process for each, and every traceback, of which there is none.
"""

import argparse
import statistics
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from autoscaler.config import ConfigError
from tests.importers.importing import imported
from tests.importers.mutations import mutated
from tests.importers.test_mutations import DOCUMENTS


def documents_of(paths: Sequence[Path]) -> list[Any]:
    """Return the documents of files and folders that can be parsed, and those of the tests."""
    found = list(DOCUMENTS)
    for path in paths:
        for file in sorted(path.rglob("*.y*ml")) if path.is_dir() else [path]:
            try:
                found += [one for one in yaml.safe_load_all(file.read_text()) if one]
            except yaml.YAMLError:
                print(f"{file} is no YAML, and left out")
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    documents = documents_of(options.files)
    codes: Counter[object] = Counter()
    times: list[float] = []
    slowest = (0.0, 0)
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.first, options.first + options.count):
            folder = Path(name)
            (folder / "out" / "autoscaler.yaml").unlink(missing_ok=True)
            text = mutated(documents, number).encode(errors="replace")
            begin = time.process_time()
            try:
                ran = imported(folder, text)
                times.append(time.process_time() - begin)
                slowest = max(slowest, (times[-1], number))
                if ran.code == 0:
                    _ = ran.config
                codes[f"exit code {ran.code}"] += 1
            except ConfigError as error:
                codes["imported, but not valid"] += 1
                print(f"{number}: {error}")
            except Exception as error:  # noqa: BLE001 - what is looked for
                codes[f"traceback of {type(error).__name__}"] += 1
                print(number, traceback.format_exc())
    milliseconds = [1000 * one for one in times]
    print(f"{options.count:,} documents: {dict(codes)}")
    print(
        f"ms each: median {statistics.median(milliseconds):.1f}, "
        f"99.9 % below {sorted(milliseconds)[int(len(milliseconds) * 0.999)]:.1f}, "
        f"most {1000 * slowest[0]:.1f} (number {slowest[1]})"
    )


if __name__ == "__main__":
    main()
