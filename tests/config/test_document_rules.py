"""The rules of the document around the targets, which test_rules.py plays, and of the file."""

from pathlib import Path

import pytest

from autoscaler.config import ConfigError, load
from tests.config.documents import QUERIES, REF, cases, prometheus, refused, target, top

ONE = f"{{namespace: shop, maxReplicas: 3, {REF.strip()}}}"

WHOLE = """
targets: [] => prometheus: is missing: where the metrics come from
prometheus: {url: http://p} => targets: is missing: the workloads to scale
prometheus: {url: http://p}; targets: {} => targets: must be a list
prometheus: {url: http://p}; targets: [x] => targets[0]: must be a mapping (got "x")
prometheus: {url: http://p}; targets: [ONE, BETA]
    ~> targets[1]: scales Deployment web in shop, as targets[0] does: a workload has one
prometheus: http://p:9090; targets: [] => prometheus: must be a mapping
prometheus: {}; targets: [] => prometheus.url: is missing: the address
"""
TOP = """
target: [] => target: did you mean `targets`?
syncPeriod: 15 => syncPeriod: write 15s if seconds are meant
syncPeriod: 500ms ~> syncPeriod: must be from 1s to 1h
syncPeriod: 61m ~> syncPeriod: must be from 1s to 1h
kubernetes: {maxWritesPerSecond: 0} => kubernetes.maxWritesPerSecond: at least 1
syncPeriod: 1:30 => syncPeriod: must be a duration such as 15s
downscaleStabilization: -5m => downscaleStabilization: cannot be negative
initialReadinessDelay: soon => initialReadinessDelay: must be a duration
cpuInitializationPeriod: [5m] => cpuInitializationPeriod: must be a duration
tolerance: -0.1 => tolerance: must be 0 or more
tolerance: .nan ~> tolerance: must be a number such as 0.1
tolerance: true => tolerance: must be a number such as 0.1
queries: [up] => queries: names to values, each with its PromQL (got a list)
queries: {a: ' '} => queries.a: must be PromQL, and is empty
queries: {a: 5} => queries.a: must be PromQL, or a mapping with `query`
queries: {a: } => queries.a: or a mapping with `query`
queries: {a: {promql: up}} => queries.a.query: is missing: the PromQL
queries: {a: {querry: up}} => queries.a.querry: did you mean `query`?
queries: {a: {query: up, maxAge: 0s}} => queries.a.maxAge: longer than 0
queries: {a: {query: up, labels: {pods: x}}} => queries.a.labels.pods: `pod`?
queries: {labels: {query: up, x: 1}} => queries.labels.x: known are empty, labels
queries: {on: up} ~> queries.on: YAML reads it as true: write "on", in quotes
queries: {1: up} ~> queries.1: a key must be a text
queries: {[a]: up} ~> queries: not a list or a mapping
queries: {'': up} => queries[""]: must not be empty
queries: {a: up, a: down} ~> queries.a: duplicate key
resourceQueries: {cpu: {window: 1m}} => resourceQueries.cpu.query: is missing
kubernetes: {kubeconfg: x} => kubernetes.kubeconfg: did you mean `kubeconfig`?
kubernetes: {context: 5} => kubernetes.context: put it in quotes
kubernetes: {kubeconfig: /no/such} ~> kubernetes.kubeconfig: no file /no/such
kubernetes: {kubeconfig: /} ~> kubernetes.kubeconfig: / is a folder
"""
OF_PROMETHEUS = """
timeout: 10 => .timeout: 10s if seconds are meant
timeout: 0s => .timeout: must be longer than 0
timout: 1s => .timout: did you mean `timeout`?
bearerToken: abc => .bearerToken: bearerTokenFile
bearerTokenFile: '' => .bearerTokenFile: must not be empty
bearerTokenFile: ./no ~> .bearerTokenFile: there is no file
basicAuth: {username: a} => .basicAuth.passwordFile: is missing
basicAuth: {username: 'a:b', passwordFile: /etc/hostname}
    => .basicAuth.username: separates user and password
basicAuth: {username: a, passwordFile: FILE}; bearerTokenFile: FILE
    => : bearerTokenFile and basicAuth cannot be used together: a request carries one
googleIam: {}; sigv4: {region: eu-west-1}; bearerTokenFile: FILE
    => : bearerTokenFile, sigv4 and googleIam cannot be used together
oauth2: {clientId: a} => .oauth2.clientSecretFile: is missing
oauth2: {clientId: a, tokenUrl: 'https://h/token', clientSecretFile: ./no}
    ~> .oauth2.clientSecretFile: there is no file
oauth2: {clientId: a, tokenUrl: 'https://h/token', clientSecretFile: FILE,
    endpointParams: {grant_type: password}}
    => .oauth2.endpointParams.grant_type: is set by the other keys of oauth2
oauth2: {clientSecret: abc}
    => .oauth2.clientSecret: write the name of a file that holds it: `clientSecretFile`
sigv4: {accessKey: A} => .sigv4.accessKey: needs secretKeyFile too
sigv4: {externalId: A} => .sigv4.externalId: needs roleArn too
azuread: {} => .azuread: needs one of managedIdentity
azuread: {managedIdentity: {}, workloadIdentity: {}}
    => .azuread: managedIdentity and workloadIdentity cannot be used together
azuread: {managedIdentity: {}, cloud: Azure} => .azuread.cloud: AzurePublic
tls: {certFile: FILE} => .tls.certFile: needs keyFile too
tls: {keyFile: FILE} => .tls.keyFile: needs certFile too
tls: {insecureSkipVerify: 'true'} => .tls.insecureSkipVerify: must be true or false (got "true")
headers: {X-A: 5} => .headers.X-A: put it in quotes
headers: {X A: b} => .headers["X A"]: name of an HTTP header
headers: {X-A: "b\\nc"} => .headers.X-A: must be one line
headers: {X-A: "\\u0085"} => .headers.X-A: must be one line
headers: {X-A: "a "} => .headers.X-A: must not begin or end with
headers: {X-A: 日本} => .headers.X-A: of Latin-1 characters
headers: {Authorization: Bearer abc}
    => .headers.Authorization: use bearerTokenFile, basicAuth with passwordFile, or another
headersFiles: {X A: FILE} => .headersFiles["X A"]: name of an HTTP header
headersFiles: {proxy-authorization: FILE}
    => .headersFiles.proxy-authorization: into the URL of HTTPS_PROXY
headersFiles: {X-A: gone} ~> .headersFiles.X-A: there is no file
headersFiles: {x-key: FILE}; headers: {X-Key: a}
    ~> .headersFiles: sets x-key, which another entry of headers or headersFiles sets too
headersFiles: {X-Key: FILE, x-key: FILE} ~> .headersFiles: sets x-key, which another entry
headersFiles: {authorization: FILE}; sigv4: {region: a}
    => .headersFiles: sets authorization next to sigv4, which does so too
queryParameters: {a: 5} => .queryParameters.a: must be a list
queryParameters: {a: [5]} => .queryParameters.a[0]: in quotes
"""
URLS = f"""
http://p/?a=b => url: queryParameters
http://u:p@h => url: basicAuth.username
http://p:99999 ~> url: such as http://prometheus:9
http://[1:2]:9090 ~> url: such as http://prometheus:9
http://{"a." * 126}aa ~> url: such as http://prometheus:9
"""
NO_URLS = f"""
p:9090 ftp://p http:// http://[abc]:9090 http://[1.2.3.4]:9090 http://[fe80::1%25eth0]:9090
http://a%zz/x http://*.example/x http://a..b http://.a http://{"a" * 64}.example http://prömetheus
http://p:\uff19\uff10
"""


def with_url(url: str) -> str:
    return f"prometheus: {{url: '{url}'}}\ntargets: []\n"


ROWS = [
    *cases(str, "", WHOLE.replace("ONE", ONE).replace("BETA", ONE.replace("/v1", "/v1beta2"))),
    *cases(top, "", TOP),
    *cases(prometheus, "prometheus", OF_PROMETHEUS.replace("FILE", "autoscaler.yaml")),
    *cases(with_url, "prometheus.", URLS),
    *((with_url(url), "prometheus.url", "such as http://prometheus:9") for url in NO_URLS.split()),
]


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
def test_a_file_that_is_not_a_configuration_is_refused_with_its_line(
    tmp_path: Path, content: bytes, line: int | None, fragment: str
) -> None:
    problems = refused(tmp_path, content)
    assert any(fragment in problem.message and problem.line == line for problem in problems)
    assert all(problem.file == str(tmp_path / "autoscaler.yaml") for problem in problems)


def test_a_missing_file_and_a_folder_are_problems(tmp_path: Path) -> None:
    for path, fragment in ((tmp_path / "no", "there is no such file"), (tmp_path, "is a folder")):
        with pytest.raises(ConfigError, match=fragment) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: ")


def test_all_faults_are_reported_in_the_order_of_the_file(tmp_path: Path) -> None:
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
