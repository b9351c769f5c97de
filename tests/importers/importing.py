"""Runs an import on texts, and reads its files and its report."""

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from autoscaler.config import Config, load
from autoscaler.migrate.importing import import_autoscalers
from autoscaler.migrate.options import ImportOptions

Json = Any
"""Parsed JSON or YAML, whose form the tests know."""

PLAIN = ImportOptions(prometheus=None)


class Ran(NamedTuple):
    """What an import came to."""

    code: int
    output: Path
    report: Json

    @property
    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    @property
    def document(self) -> Json:
        return yaml.safe_load(self.text)

    @property
    def target(self) -> Json:
        (target,) = self.document["targets"]
        return target

    @property
    def config(self) -> Config:
        """The configuration as the daemon loads it: it is valid."""
        return load(self.output)

    @property
    def decided(self) -> Config:
        """The same once everything is decided that it leaves open, by taking it as it is."""
        document = self.document
        for target in document["targets"]:
            target.pop("undecided", None)
        path = self.output.with_name("decided.yaml")
        path.write_text(yaml.safe_dump(document))
        return load(path)

    @property
    def sentences(self) -> list[str]:
        """What was refused, and why: of documents and of their keys."""
        found = []
        for source in self.report["sources"]:
            if source["outcome"] == "refused":
                found.append(source["why"])
            lost = (key for key in source.get("keys", ()) if key["outcome"] == "refused")
            found += [f"{key['path']}: {key['why']}" for key in lost if key["path"]]
        return found

    def keys(self, outcome: str) -> dict[str, str]:
        """Return the keys of all sources that came out so, each with its sentence."""
        return {
            key["path"]: key["why"]
            for source in self.report["sources"]
            for key in source.get("keys", ())
            if key["outcome"] == outcome
        }


def imported(folder: Path, *texts: str | bytes, options: ImportOptions = PLAIN) -> Ran:
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"{number}.yaml")
        files[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
    return run(files, folder / "out" / "autoscaler.yaml", options)


def run(files: list[Path], output: Path, options: ImportOptions = PLAIN) -> Ran:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = import_autoscalers(files, replace(options, output=output, report="json"))
    return Ran(code, output, json.loads(printed.getvalue()))
