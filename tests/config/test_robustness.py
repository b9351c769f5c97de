"""Whatever a file holds, it is either a configuration or a list of problems: never a traceback."""

import copy
import json
from pathlib import Path

import requests
import urllib3
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from autoscaler.config import Config, ConfigError, load, to_core
from autoscaler.config.documents import Location, child, read
from autoscaler.config.error_messages import findings_of
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec as SpecModel
from tests.config.api_form import defaulted
from tests.importers import test_manifests
from tests.places import places

REFERENCE = Path(__file__).parents[2] / "config" / "autoscaler.yaml"
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.integers(),
        st.floats(),
        st.sampled_from(["", "1", "5m", "Pods", "External", "a/b", "In", "apps/v1", "\ud7ff\n"]),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def reference() -> JsonValue:
    """Return the annotated reference as plain data."""
    value: JsonValue = json.loads(
        json.dumps(read(REFERENCE.read_text(encoding="utf-8"), lambda *_: None))
    )
    return value


def with_value(document: JsonValue, place: Location, value: JsonValue) -> JsonValue:
    """Return a copy of a document with a value at one of its places."""
    changed = copy.deepcopy(document)
    child(changed, *place[:-1])[place[-1]] = value  # type: ignore[index] # a list or a mapping
    return changed


PLACES = [place for place in places(reference()) if place]


def outcome(path: Path, text: str) -> Config | ConfigError:
    """Load a text; a refusal has problems that can be printed."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    result: Config | ConfigError
    try:
        result = load(path)
    except ConfigError as error:
        result = error
    if isinstance(result, ConfigError):
        assert result.problems
        assert len(str(result).splitlines()) == len(result.problems)
    return result


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_any_value_at_any_place_is_taken_or_refused(
    tmp_path: Path, place: Location, value: JsonValue
) -> None:
    outcome(tmp_path / "a.yaml", json.dumps(with_value(reference(), place, value)))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="ab:-{}[]#&*!|>'\"%@`,?~<= \n\t0.1\\\u2028\x85", max_size=40))
@example("? a\n: b")
@example("%YAML 9.9\n---\na: b")
@example("&a [*a]")
@example("&a {b: *a}")
@example("!!binary a: b")
@example("!!set {a, b}")
@example("a: !!int x")
@example("a: !!float 1e999")
@example("1" * 5000)
@example('{"\\ud800": "\\ud800"}')
@example("x: 'a\u2028b'")
def test_any_text_is_taken_or_refused(tmp_path: Path, text: str) -> None:
    assert isinstance(outcome(tmp_path / "a.yaml", text), ConfigError)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(VALUES, st.lists(st.text(alphabet="*?[]!-.~a\x00\ud800", max_size=6))))
@example(["[", "a[", "[!", "*]", "~", "~a", "~\x00", "."])
def test_any_include_is_found_or_refused(tmp_path: Path, include: JsonValue) -> None:
    document = {"prometheus": {"url": "http://p"}, "include": include}
    outcome(tmp_path / "a.yaml", json.dumps(document))


MANIFESTS = [
    document
    for text in (test_manifests.V2BETA1, test_manifests.V1, test_manifests.SCALED_OBJECT)
    if isinstance(document := json.loads(json.dumps(read(text, lambda *_: None))), dict)
]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.sampled_from(MANIFESTS), VALUES)
def test_any_value_in_a_manifest_is_refused(
    tmp_path: Path, data: st.DataObject, manifest: dict[str, JsonValue], value: JsonValue
) -> None:
    place = data.draw(st.sampled_from([place for place in places(manifest) if place]))
    document = with_value(manifest, place, value)
    assert isinstance(outcome(tmp_path / "a.yaml", json.dumps(document)), ConfigError)
    around = {"prometheus": {"url": "http://p"}, "targets": [document]}
    assert isinstance(outcome(tmp_path / "a.yaml", json.dumps(around)), ConfigError)


HOSTS = st.one_of(
    st.sampled_from(["p", "prometheus.monitoring.svc.", "127.0.0.1", "[::1]", "[::ffff:1.2.3.4]"]),
    st.text(alphabet="a1-_.:%[]\u00fc*~", min_size=1, max_size=8),
    st.text(alphabet="0aF:.", max_size=8).map(lambda inside: f"[{inside}]"),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTS, st.sampled_from(["", ":0", ":9090", ":65535", ":7x"]), st.text(max_size=5), st.text())
@example("p", "", "%zz", "\xa0\xff")
@example("p", "", "//[", "\t")
def test_an_accepted_url_and_header_can_be_sent(
    tmp_path: Path, host: str, port: str, path: str, header: str
) -> None:
    url = f"http://{host}{port}/{path}"
    document = {"prometheus": {"url": url, "headers": {"X-A": header}}, "targets": []}
    config = outcome(tmp_path / "a.yaml", json.dumps(document))
    if isinstance(config, Config):
        headers = {"X-A": config.prometheus.headers["X-A"].get_secret_value()}
        url = config.prometheus.url + "/api/v1/query"
        request = requests.Request("POST", url, headers=headers).prepare()
        assert request.url is not None
        assert urllib3.util.parse_url(request.url).host
        assert "X-A" in request.headers
        headers["X-A"].encode("latin-1")


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["metrics", "behavior", "minReplicas"]), VALUES))
def test_any_spec_is_converted_or_refused(fields: dict[str, JsonValue]) -> None:
    ref: JsonValue = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
    try:
        spec = SpecModel.model_validate({"scaleTargetRef": ref, "maxReplicas": 3, **fields})
    except ValidationError as error:
        sentences = [finding.message for finding in findings_of(error, SpecModel)]
    else:
        sentences = ["none"]
        assert defaulted(SpecModel.model_validate(defaulted(spec))) == defaulted(spec)
        assert to_core(spec).max_replicas == 3
    assert all(sentences)
    assert sentences
