"""The examples in config/ load, fit the schema, and say the defaults that are in force."""

import dataclasses
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from autoscaler.cli.json_schemas import INCLUDED, json_schema
from autoscaler.config import load
from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.documents import read
from autoscaler.config.settings import PrometheusServers, Settings
from autoscaler.core.spec import ExternalMetric
from autoscaler.core.target import Query
from tests.config.documents import EXTERNAL, PROMETHEUS, loaded, target
from tests.config.schemas import validator
from tests.importers.importing import imported
from tests.narrowing import instance
from tests.worlds.certificates import of_loopback
from tests.worlds.prometheus.web_config import HASHES, NEW

ROOT = Path(__file__).parents[2]
RULES = {"alerts.yaml", "hpa-metrics.yaml"}
"""For Prometheus."""
EXAMPLES = sorted(path for path in (ROOT / "config").glob("*.yaml") if path.name not in RULES)
DOCUMENTATION = ROOT / "docs" / "reference" / "configuration.md"


def test_there_is_an_example_for_each_use() -> None:
    uses = "autoscaler clusters cpu include object queue requests-per-second several-metrics"
    servers = "endpoint-picker latency prefill-decode servers vllm"
    named = {f"llm-{name}" for name in servers.split()}
    assert {path.stem for path in EXAMPLES} >= {*uses.split(), *named}
    assert {path.stem for path in (ROOT / "config" / "policy-tests").glob("llm-*")} == named


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_loads_and_fits_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=autoscaler.schema.json\n")
    assert load(path).targets
    document = read(text, lambda *_: None)
    assert list(Draft202012Validator(json_schema()).iter_errors(document)) == []


def test_an_included_example_is_part_of_its_main_file() -> None:
    (path,) = (ROOT / "config" / "targets.d").glob("*")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../autoscaler-targets.schema.json\n")
    assert path in load(ROOT / "config" / "include.yaml").sources.digests
    document = read(text, lambda *_: None)
    assert list(validator(INCLUDED).iter_errors(document)) == []


def test_examples_select_the_series_of_one_namespace_or_job() -> None:
    found = [
        (query.promql, metric.metric.selector)
        for path in (*EXAMPLES, ROOT / "config" / "kubernetes" / "base" / "autoscaler.yaml")
        for target_ in load(path, lambda: "autoscaler").targets
        for metric, query in zip(target_.spec.metrics, target_.queries, strict=True)
        if isinstance(metric, ExternalMetric)
    ]
    assert len(found) > 5
    for promql, selector in found:
        selected = () if selector is None else dict(selector.match_labels)
        assert re.search(r'\b(namespace|job)="', promql) or "namespace" in selected, promql


def test_the_reference_has_the_defaults(tmp_path: Path) -> None:
    written = load(ROOT / "config" / "autoscaler.yaml")
    text = target(f"behavior: {{}}\nmetrics:\n{EXTERNAL}")
    bare = loaded(tmp_path, f"{text}scaleDownBreaker: {{}}\n")
    for name in Settings.model_fields.keys() - {"prometheus"}:
        assert getattr(written, name) == getattr(bare, name), name
    assert written.prometheus == PrometheusServers(url=written.prometheus.url)
    (found,) = written.targets
    assert found.spec.behavior == bare.targets[0].spec.behavior
    by_type = {
        metric.type: query for metric, query in zip(found.spec.metrics, found.queries, strict=True)
    }
    assert by_type["Resource"] == DEFAULTS["cpu"]
    assert by_type["ContainerResource"] == DEFAULTS["memory"]
    pods = dataclasses.replace(by_type["Pods"], promql="", window=60.0, range_seconds=0.0)
    assert pods == Query("")


COMMENTED = re.compile(r"^( *)#(\w+:)", re.MULTILINE)
"""A key that is commented out: prose has a space after its "#"."""


def _write_what_is_named(folder: Path) -> None:
    of_loopback(folder, "web")
    (folder / "users.yaml").write_text(f"alice: {HASHES[NEW]}")
    names = "web-token api-key token password ca.pem client.pem client-key.pem kubeconfig"
    for name in names.split():
        (folder / name).write_text("x")
    (folder / "targets.d").mkdir()


def test_each_commented_key_may_be_uncommented(tmp_path: Path) -> None:
    _write_what_is_named(tmp_path)
    seen = []
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        for found in COMMENTED.finditer(text):
            seen.append(found[2])
            changed = text[: found.start()] + found[1] + found[2] + text[found.end() :]
            if found[2] == "certFile:":
                changed = changed.replace("#keyFile:", "keyFile:")
            elif found[2] == "keyFile:":
                continue  # with certFile
            assert loaded(tmp_path, changed).targets, found[2]
    assert {"kubeconfig:", "context:", "caFile:", "headers:", "tolerance:"} <= set(seen)


def test_the_reference_loads_with_all_keys_uncommented(tmp_path: Path) -> None:
    text = (ROOT / "config" / "autoscaler.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^ *#  +\w+:.*", text, re.MULTILINE) == []  # blanks would be left over
    whole = COMMENTED.sub(r"\1\2", text)
    assert whole.count("#") < text.count("#") - 10
    _write_what_is_named(tmp_path)
    for left_out in ("bearerTokenFile", "basicAuth"):
        config = loaded(tmp_path, re.sub(rf"^ *{left_out}:.*$", "", whole, flags=re.MULTILINE))
        assert config.prometheus.tls.server_name == "prometheus.example"
        assert config.kubernetes.context == "production"
        assert config.prometheus.headers["X-Scope-OrgID"].get_secret_value() == "shop"


def test_whole_configurations_of_the_documentation_load(tmp_path: Path) -> None:
    included = re.compile(r"# [^\n]*autoscaler-targets.schema.json\n(.*?)```", re.DOTALL)
    found = included.findall(DOCUMENTATION.read_text(encoding="utf-8"))
    (tmp_path / "targets.d").mkdir()
    for name, text in zip(("a.yaml", "targets.yaml"), (*found, "targets: []\n"), strict=True):
        (tmp_path / "targets.d" / name).write_text(text, encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    whole = [block for block in blocks if block.startswith("prometheus:")]
    assert len(whole) > 3
    (tmp_path / "client-secret").touch(0o600)
    for block in whole:
        has_targets = re.search("^(targets|include):", block, re.MULTILINE)
        rest = "" if has_targets else target("").removeprefix(PROMETHEUS)
        config = loaded(tmp_path, block.replace("/etc/shop", "targets.d") + rest)
        assert config.targets
        assert all(path.exists() for path in config.sources.digests)


def test_the_example_of_keda_equals_its_conversion(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "keda.md").read_text(encoding="utf-8")
    scaled_object, written = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (converted,) = imported(tmp_path, scaled_object).decided.targets
    (target_,) = loaded(tmp_path, written).targets
    (named,) = target_.extensions.schedules
    (unnamed,) = converted.extensions.schedules
    assert dataclasses.replace(unnamed, name=named.name) == named
    for field in ("idle", "fallback", "activations"):
        assert getattr(target_.extensions, field) == getattr(converted.extensions, field)
    assert target_.spec.max_replicas == converted.spec.max_replicas
    assert target_.spec.min_replicas == converted.spec.min_replicas


def test_the_documented_cpu_query_reads_the_last_30_seconds(tmp_path: Path) -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(resourceQueries:.*?)```", text, re.DOTALL)
    (found,) = loaded(tmp_path, f"{block}{target('')}").targets
    (query,) = found.queries
    assert "irate(" in query.promql
    assert (query.window, query.range_seconds) == (30.0, 30.0)


def test_documentation_names_every_key() -> None:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    names = set(re.findall(r"\w+", text))
    definitions = instance(dict, json_schema()["$defs"])
    for definition in (json_schema(), *definitions.values()):
        assert isinstance(definition, dict)
        keys = instance(dict, definition["properties"])
        assert set(keys) <= names, set(keys) - names
