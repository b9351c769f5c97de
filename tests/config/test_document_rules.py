"""Every rule of the document around the targets, and of the file itself."""

from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
from tests.config.documents import (
    PROMETHEUS,
    QUERIES,
    REF,
    assert_refused,
    prometheus,
    refused,
    target,
    top,
)

OAUTH2 = "clientId: a, tokenUrl: 'https://h/token'"
ONE = f"- namespace: shop\n  maxReplicas: 3\n  {REF}"

ROWS = [
    ("targets: []\n", "prometheus", "is missing: where the metrics come from"),
    (PROMETHEUS, "targets", "is missing: the workloads to scale"),
    (top("target: []\n"), "target", "did you mean `targets`?"),
    (top("sync_period: 5s\n"), "sync_period", "did you mean `syncPeriod`?"),
    (top("syncPeriod: 15\n"), "syncPeriod", "write 15s if seconds are meant"),
    (top("syncPeriod: 500ms\n"), "syncPeriod", "must be from 1s to 1h"),
    (top("syncPeriod: 61m\n"), "syncPeriod", "must be from 1s to 1h"),
    (top("kubernetes: {maxWritesPerSecond: 0}\n"), "kubernetes.maxWritesPerSecond", "at least 1"),
    (top("syncPeriod: 1:30\n"), "syncPeriod", "must be a duration such as 15s"),
    (top("downscaleStabilization: -5m\n"), "downscaleStabilization", "cannot be negative"),
    (top("initialReadinessDelay: soon\n"), "initialReadinessDelay", "must be a duration"),
    (top("cpuInitializationPeriod: [5m]\n"), "cpuInitializationPeriod", "must be a duration"),
    (top("tolerance: -0.1\n"), "tolerance", "must be 0 or more"),
    (top("tolerance: 10%\n"), "tolerance", "must be a number such as 0.1"),
    (top("tolerance: .nan\n"), "tolerance", "must be a number such as 0.1"),
    (top("tolerance: true\n"), "tolerance", "must be a number such as 0.1"),
    (top("queries: [up]\n"), "queries", "names to values, each with its PromQL (got a list)"),
    (top("queries: {a: ' '}\n"), "queries.a", "must be PromQL, and is empty"),
    (top("queries: {a: 5}\n"), "queries.a", "must be PromQL, or a mapping with `query`"),
    (top("queries: {a: }\n"), "queries.a", "or a mapping with `query`"),
    (top("queries: {a: {promql: up}}\n"), "queries.a.query", "is missing: the PromQL"),
    (top("queries: {a: {querry: up}}\n"), "queries.a.querry", "did you mean `query`?"),
    (top("queries: {a: {query: up, maxAge: 0s}}\n"), "queries.a.maxAge", "longer than 0"),
    (top("queries: {a: {query: up, labels: {pods: x}}}\n"), "queries.a.labels.pods", "`pod`?"),
    (top("queries: {labels: {query: up, x: 1}}\n"), "queries.labels.x", "known are empty, labels"),
    (top("queries: {on: up}\n"), "queries.on", 'YAML reads it as true: write "on", in quotes'),
    (top("queries: {1: up}\n"), "queries.1", "a key must be a text"),
    (top("queries: {[a]: up}\n"), "queries", "not a list or a mapping"),
    (top("queries: {'': up}\n"), 'queries[""]', "must not be empty"),
    (top("queries:\n  a: up\n  a: down\n"), "queries.a", "this key stands here twice"),
    (top("resourceQueries: {cpu: {window: 1m}}\n"), "resourceQueries.cpu.query", "is missing"),
    (top("kubernetes: {kubeconfg: x}\n"), "kubernetes.kubeconfg", "did you mean `kubeconfig`?"),
    (top("kubernetes: {context: 5}\n"), "kubernetes.context", "put it in quotes"),
    (top("kubernetes: {kubeconfig: /no/such}\n"), "kubernetes.kubeconfig", "no file /no/such"),
    (top("kubernetes: {kubeconfig: /}\n"), "kubernetes.kubeconfig", "/ is a folder"),
    (prometheus("timeout: 10\n"), "prometheus.timeout", "10s if seconds are meant"),
    (prometheus("timeout: 0s\n"), "prometheus.timeout", "must be longer than 0"),
    (prometheus("timout: 1s\n"), "prometheus.timout", "did you mean `timeout`?"),
    (prometheus("bearerToken: abc\n"), "prometheus.bearerToken", "bearerTokenFile"),
    (prometheus("bearerTokenFile: ''\n"), "prometheus.bearerTokenFile", "must not be empty"),
    (prometheus("bearerTokenFile: ./no\n"), "prometheus.bearerTokenFile", "there is no file"),
    (prometheus("basicAuth: {username: a}\n"), "prometheus.basicAuth.passwordFile", "is missing"),
    (
        prometheus("basicAuth: {username: 'a:b', passwordFile: /etc/hostname}\n"),
        "prometheus.basicAuth.username",
        "separates user and password",
    ),
    (
        prometheus(
            "basicAuth: {username: a, passwordFile: autoscaler.yaml}\n"
            "bearerTokenFile: autoscaler.yaml\n"
        ),
        "prometheus",
        "bearerTokenFile and basicAuth cannot be used together: a request carries one",
    ),
    (
        prometheus("googleIam: {}\nsigv4: {region: eu-west-1}\nbearerTokenFile: autoscaler.yaml\n"),
        "prometheus",
        "bearerTokenFile, sigv4 and googleIam cannot be used together",
    ),
    (prometheus("oauth2: {clientId: a}\n"), "prometheus.oauth2.clientSecretFile", "is missing"),
    (
        prometheus(f"oauth2: {{{OAUTH2}, clientSecretFile: ./no}}\n"),
        "prometheus.oauth2.clientSecretFile",
        "there is no file",
    ),
    (
        prometheus(
            f"oauth2: {{{OAUTH2}, clientSecretFile: autoscaler.yaml, "
            "endpointParams: {grant_type: password}}\n"
        ),
        "prometheus.oauth2.endpointParams.grant_type",
        "is set by the other keys of oauth2",
    ),
    (
        prometheus("oauth2: {clientSecret: abc}\n"),
        "prometheus.oauth2.clientSecret",
        "write the name of a file that holds it: clientSecretFile",
    ),
    (
        prometheus("sigv4: {accessKey: A}\n"),
        "prometheus.sigv4.accessKey",
        "needs secretKeyFile beside it",
    ),
    (
        prometheus("sigv4: {externalId: A}\n"),
        "prometheus.sigv4.externalId",
        "needs roleArn beside it",
    ),
    (prometheus("azuread: {}\n"), "prometheus.azuread", "needs one of managedIdentity"),
    (
        prometheus("azuread: {managedIdentity: {}, workloadIdentity: {}}\n"),
        "prometheus.azuread",
        "managedIdentity and workloadIdentity cannot be used together",
    ),
    (
        prometheus("azuread: {managedIdentity: {}, cloud: Azure}\n"),
        "prometheus.azuread.cloud",
        "AzurePublic",
    ),
    (
        prometheus("tls: {certFile: autoscaler.yaml}\n"),
        "prometheus.tls.certFile",
        "needs keyFile beside it",
    ),
    (
        prometheus("tls: {keyFile: autoscaler.yaml}\n"),
        "prometheus.tls.keyFile",
        "needs certFile beside it",
    ),
    (
        prometheus("tls: {insecureSkipVerify: 'true'}\n"),
        "prometheus.tls.insecureSkipVerify",
        'must be true or false (got "true")',
    ),
    (prometheus("headers: {X-A: 5}\n"), "prometheus.headers.X-A", "put it in quotes"),
    (prometheus("headers: {X A: b}\n"), 'prometheus.headers["X A"]', "name of an HTTP header"),
    (prometheus('headers: {X-A: "b\\nc"}\n'), "prometheus.headers.X-A", "must be one line"),
    (
        prometheus("headers: {Authorization: Bearer abc}\n"),
        "prometheus.headers.Authorization",
        "use bearerTokenFile, basicAuth with passwordFile, or another",
    ),
    (
        prometheus("headersFiles: {X A: autoscaler.yaml}\n"),
        'prometheus.headersFiles["X A"]',
        "name of an HTTP header",
    ),
    (
        prometheus("headersFiles: {proxy-authorization: autoscaler.yaml}\n"),
        "prometheus.headersFiles.proxy-authorization",
        "into the URL of HTTPS_PROXY",
    ),
    (prometheus("headersFiles: {X-A: gone}\n"), "prometheus.headersFiles.X-A", "there is no file"),
    (
        prometheus("headersFiles: {x-key: autoscaler.yaml}\nheaders: {X-Key: a}\n"),
        "prometheus.headersFiles",
        "sets x-key, which another entry of headers or headersFiles sets too",
    ),
    (
        prometheus("headersFiles: {X-Key: autoscaler.yaml, x-key: autoscaler.yaml}\n"),
        "prometheus.headersFiles",
        "sets x-key, which another entry",
    ),
    (
        prometheus("headersFiles: {authorization: autoscaler.yaml}\nsigv4: {region: a}\n"),
        "prometheus.headersFiles",
        "sets authorization beside sigv4, which does so too",
    ),
    (prometheus("queryParameters: {a: 5}\n"), "prometheus.queryParameters.a", "must be a list"),
    (prometheus("queryParameters: {a: [5]}\n"), "prometheus.queryParameters.a[0]", "in quotes"),
    ("prometheus: http://p:9090\ntargets: []\n", "prometheus", "must be a mapping"),
    ("prometheus: {}\ntargets: []\n", "prometheus.url", "is missing: the address"),
    ("prometheus: {url: p:9090}\ntargets: []\n", "prometheus.url", "such as http://prometheus"),
    ("prometheus: {url: ftp://p}\ntargets: []\n", "prometheus.url", "such as http://prometheus"),
    ("prometheus: {url: 'http://'}\ntargets: []\n", "prometheus.url", "such as http://prometheus"),
    ("prometheus: {url: 'http://p:99999'}\ntargets: []\n", "prometheus.url", "such as http://"),
    ("prometheus: {url: http://p/?a=b}\ntargets: []\n", "prometheus.url", "queryParameters"),
    ("prometheus: {url: http://u:p@h}\ntargets: []\n", "prometheus.url", "basicAuth.username"),
    *(
        (
            f"prometheus: {{url: '{url}'}}\ntargets: []\n",
            "prometheus.url",
            "such as http://prometheus:9",
        )
        for url in (
            "http://[abc]:9090",
            "http://[1.2.3.4]:9090",
            "http://[1:2]:9090",
            "http://[fe80::1%25eth0]:9090",
            "http://a%zz/x",
            "http://*.example/x",
            "http://a..b",
            "http://.a",
            f"http://{'a' * 64}.example",
            f"http://{'a.' * 126}aa",
            "http://prömetheus",
            "http://p:\uff19\uff10",
        )
    ),
    (prometheus("headers: {X-A: 日本}\n"), "prometheus.headers.X-A", "of Latin-1 characters"),
    (prometheus('headers: {X-A: "a "}\n'), "prometheus.headers.X-A", "must not begin or end with"),
    (prometheus('headers: {X-A: "\\u0085"}\n'), "prometheus.headers.X-A", "must be one line"),
    (PROMETHEUS + "targets: {}\n", "targets", "must be a list"),
    (PROMETHEUS + "targets: [x]\n", "targets[0]", 'must be a mapping (got "x")'),
    (PROMETHEUS + f"targets:\n{ONE}{ONE}", "targets[1]", "as targets[0] does: a workload has one"),
    (
        PROMETHEUS + f"targets:\n{ONE}{ONE.replace('/v1', '/v1beta2')}",
        "targets[1]",
        "scales Deployment web in shop",
    ),
]


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_fault_has_path_line_and_what_is_right(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """Each fault has the path of its field, a line, and a sentence that says what is right."""
    assert_refused(tmp_path, text, path, fragment)


FILES = [
    (b"", None, "the file is empty"),
    (b"# nothing\n", None, "the file is empty"),
    (b"hello\n", 1, "a configuration is a mapping"),
    (b"- a\n", 1, "a configuration is a mapping"),
    (b"a: b\nc: \xff\n", 2, "is not UTF-8"),
    (b"a: b\n\tc: d\n", 2, "not YAML at column 1"),
    (b"a: [b\n", 2, "not YAML"),
    (
        b"start: */5 8 * * *\n",
        1,
        "not YAML at column 9: a text that begins with * or & needs quotes",
    ),
    (b"a: b: c\n", 1, 'not YAML at column 5: a ":" that YAML does not expect'),
    (b"a: @b\n", 1, "put texts that begin with @"),
    (b'a: "\\q"\n', 1, "not YAML"),
    (b"a: \x01\n", None, "a character that YAML does not allow"),
    (b"a: 1\n---\nb: 2\n", 2, "a second YAML document"),
    (b"a: *b\n", 1, "an anchor that is not defined above"),
    (b"a: !b c\n", 1, "a tag (!) has no meaning here"),
    (b"a: !b [c]\n", 1, "a tag (!) has no meaning here"),
    (b"<<: 3\n", 1, "<< merges mappings only"),
    (b"\na: " + b"[" * 60 + b"]" * 60, 2, "stand more than 40 deep in one another"),
    (b"a: " + b"[" * 100_000, 1, "stand more than 40 deep in one another"),
    (b"- " * 100_000 + b"a", 1, "stand more than 40 deep in one another"),
    (b"? " * 100_000 + b"a", 1, "stand more than 40 deep in one another"),
]


@pytest.mark.parametrize(("content", "line", "fragment"), FILES)
def test_what_is_no_document_of_ours_is_refused_with_its_line(
    tmp_path: Path, content: bytes, line: int | None, fragment: str
) -> None:
    """What is no YAML document of ours is refused with the line and the reason."""
    problems = refused(tmp_path, content)
    assert any(fragment in problem.message and problem.line == line for problem in problems)
    assert all(problem.file == str(tmp_path / "autoscaler.yaml") for problem in problems)


def test_a_missing_file_is_a_problem_like_any(tmp_path: Path) -> None:
    """A missing file and a folder are problems like any other."""
    for path, fragment in ((tmp_path / "no", "there is no such file"), (tmp_path, "is a folder")):
        with pytest.raises(ConfigError, match=fragment) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: ")


def test_all_faults_are_reported_in_the_files_order(tmp_path: Path) -> None:
    """Faults of shape and faults between fields are reported in one go, in the file's order."""
    text = (
        "prometheus: {url: 'http://p', timeout: 5}\n"  # line 1
        "syncPeriod: 2h\n"  # 2
        "queries: {a: up, a: up}\n"  # 3
        "targets:\n"
        "- namespace: Shop\n"  # 5
        f"  {REF}"  # 6
        "  minReplicas: 5\n"
        "  maxReplicas: 3\n"  # 8
        "  metrics:\n"
        "  - type: External\n"
        "    external:\n"
        "      metric: {name: b}\n"  # 12
        "      target: {type: Value, value: 1.5Gb}\n"  # 13
        "- namespace: Shop\n"  # 14 (and again the name)
        f"  {REF}"
        "  maxReplica: 3\n"  # 16: only misspelt, not missing too
    )
    found = [(problem.line, problem.path) for problem in refused(tmp_path, text)]
    assert sorted(found) == [
        (1, "prometheus.timeout"),
        (2, "syncPeriod"),
        (3, "queries.a"),
        (5, "targets[0].namespace"),
        (8, "targets[0].maxReplicas"),
        (12, "targets[0].metrics[0].external.metric.name"),
        (13, "targets[0].metrics[0].external.target.value"),
        (14, "targets[1]"),
        (14, "targets[1].namespace"),
        (16, "targets[1].maxReplica"),
    ]
    assert [line for line, _ in found] == sorted(line or 0 for line, _ in found)


def test_the_text_has_a_line_for_each_problem(tmp_path: Path) -> None:
    """The error's text is one line per problem: file, line, path, sentence, value."""
    text = target("minReplicas: 11\n").replace(QUERIES, 'queries: {a: "\\n"}\n')
    problems = refused(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "autoscaler.yaml")
    lines = str(caught.value).splitlines()
    file = tmp_path / "autoscaler.yaml"
    assert lines == [
        f'{file}:2: queries.a: must be PromQL, and is empty (got " ")',
        f"{file}:6: targets[0].maxReplicas: must be at least minReplicas, which is 11 (got 10)",
    ]
    assert len(problems) == 2
