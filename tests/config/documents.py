"""Small configuration files, and the results of loading them."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.config import Config, ConfigError, Problem, load

PROMETHEUS = "prometheus: {url: http://prometheus:9090}\n"
SERVERS = PROMETHEUS.replace("}", ", servers: {mimir: {url: http://m}, thanos: {url: http://t}}}")
QUERIES = "queries: {queue_length: sum by (queue) (queue_length), rps: sum by (pod) (rps)}\n"
REF = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
EXTERNAL = textwrap.dedent("""\
    - type: External
      external:
        metric: {name: queue_length}
        target: {type: AverageValue, averageValue: 30}
    """)


BEYOND_A_SCHEMA: set[str] = set()
"""The documents of the tables whose fault no JSON Schema sees."""


def top(snippet: str) -> str:
    """Return a document without targets whose other keys are the snippet's."""
    return PROMETHEUS + "targets: []\n" + textwrap.dedent(snippet)


def with_servers(text: str) -> str:
    """Return a document that has the further servers mimir and thanos."""
    return text.replace(PROMETHEUS, SERVERS)


def prometheus(snippet: str, url: str = "https://prometheus:9090") -> str:
    """Return a document whose `prometheus` has these keys beside the url."""
    body = textwrap.indent(textwrap.dedent(snippet), "  ")
    return f"targets: []\nprometheus:\n  url: {url}\n{body}"


def target(snippet: str, base: str = "namespace: shop\nmaxReplicas: 10\n" + REF) -> str:
    """Return a document with one target whose keys are the base's and the snippet's."""
    body = textwrap.indent(base + textwrap.dedent(snippet), "  ")
    return f"{PROMETHEUS}{QUERIES}targets:\n-\n{body}"


def extended(keys: str) -> str:
    """Return a document with one target that has these keys and an External metric."""
    return target(f"{keys}\nmetrics:\n{EXTERNAL}")


def metric(snippet: str) -> str:
    body = textwrap.indent(textwrap.dedent(snippet), "  ")
    return target(f"metrics:\n-\n{body}")


def external(snippet: str) -> str:
    """Return a document with an External metric whose source is the snippet."""
    return metric("type: External\nexternal:\n" + textwrap.indent(textwrap.dedent(snippet), "  "))


def behavior(snippet: str) -> str:
    return target("behavior:\n" + textwrap.indent(textwrap.dedent(snippet), "  "))


def loaded(folder: Path, text: str) -> Config:
    path = folder / "autoscaler.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def refused(folder: Path, text: str | bytes) -> tuple[Problem, ...]:
    path = folder / "autoscaler.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(path)
    return caught.value.problems


def assert_refused(folder: Path, text: str, path: str, fragment: str) -> None:
    """Load a document that is wrong at one path: one problem is there, and has a line."""
    problems = refused(folder, text)
    (problem,) = (problem for problem in problems if problem.path == path)
    assert fragment in str(problem)
    assert problem.line
    assert len({problem.path for problem in problems}) == len(problems)


def cases(form: Callable[[str], str], base: str, table: str) -> list[tuple[str, str, str]]:
    """Return document, path and fragment for each row `KEYS => PATH: FRAGMENT` of a table.

    The keys, in which `; ` ends a line, are put into the form, and the base is put before the
    path. Lines that are indented continue a row; `~>` is of what no JSON Schema sees, such as one
    number compared with another, a number within a text, or whether there is a file.
    """
    found = []
    for row in filter(None, table.replace("\n    ", " ").splitlines()):
        keys, arrow, expected = re.split(" ([=~])> ", row)
        path, fragment = expected.split(": ", 1)
        found.append((form(keys.replace("; ", "\n")), base + path, fragment))
        if arrow == "~":
            BEYOND_A_SCHEMA.add(found[-1][0])
    return found
