"""The validated document -> the types of the core and the settings of the adapters."""

from collections.abc import Sequence
from pathlib import Path

from autoscaler.config.defaulting import completed
from autoscaler.config.document_rules import absolute
from autoscaler.config.query_resolution import Queries
from autoscaler.config.service_model import LeaderElectionModel
from autoscaler.config.settings import (
    BasicAuth,
    Config,
    KubernetesSettings,
    LeaderElection,
    PrometheusSettings,
    Sources,
    Tls,
)
from autoscaler.config.settings_model import (
    DocumentModel,
    IncludedModel,
    KubernetesModel,
    PrometheusModel,
)
from autoscaler.config.spec_conversion import completed_to_core
from autoscaler.config.spec_model import TargetModel
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target

DEFAULT_SYNC_PERIOD = 15.0


def config_of(
    document: DocumentModel,
    included: Sequence[IncludedModel],
    path: Path,
    sources: Sources,
    pod_namespace: str | None,
) -> Config:
    """Convert documents that all rules accepted; ``path`` is the file of the main one."""
    parts: list[DocumentModel | IncludedModel] = [document, *included]
    queries = Queries.of(
        {name: query for part in parts for name, query in (part.queries or {}).items()},
        document.resource_queries or {},
    )
    sync_period = _or(document.sync_period, DEFAULT_SYNC_PERIOD)
    folder = path.absolute().parent
    return Config(
        path=path,
        sources=sources,
        prometheus=_prometheus(document.prometheus, folder),
        kubernetes=_kubernetes(document.kubernetes or KubernetesModel(), folder),
        sync_period=sync_period,
        flags=_flags(document),
        state_directory=_path(document.state_directory, folder),
        listen=document.listen,
        events=document.events is not False,
        per_target_metrics=document.per_target_metrics is not False,
        leader_election=_leader_election(
            document.leader_election or LeaderElectionModel(), pod_namespace
        ),
        targets=tuple(
            _target(target, queries, sync_period) for part in parts for target in part.targets or ()
        ),
    )


def _or(value: float | None, default: float) -> float:
    """Prefer what is set; an explicit 0 is honoured, as kube-controller-manager does."""
    return default if value is None else value


def _path(name: str | None, folder: Path) -> Path | None:
    return None if name is None else absolute(name, folder)


def _flags(document: DocumentModel) -> Flags:
    usual = Flags()
    return Flags(
        tolerance=_or(document.tolerance, usual.tolerance),
        downscale_stabilization=_or(
            document.downscale_stabilization, usual.downscale_stabilization
        ),
        cpu_initialization_period=_or(
            document.cpu_initialization_period, usual.cpu_initialization_period
        ),
        initial_readiness_delay=_or(
            document.initial_readiness_delay, usual.initial_readiness_delay
        ),
    )


def _kubernetes(model: KubernetesModel, folder: Path) -> KubernetesSettings:
    usual = KubernetesSettings()
    return KubernetesSettings(
        kubeconfig=_path(model.kubeconfig, folder),
        context=model.context,
        max_writes_per_second=model.max_writes_per_second or usual.max_writes_per_second,
    )


def _leader_election(model: LeaderElectionModel, pod_namespace: str | None) -> LeaderElection:
    usual = LeaderElection()
    return LeaderElection(
        enabled=bool(model.enabled),
        namespace=model.namespace or pod_namespace or "",
        name=model.name or usual.name,
        identity=model.identity,
        lease_duration=_or(model.lease_duration, usual.lease_duration),
        renew_deadline=_or(model.renew_deadline, usual.renew_deadline),
        retry_period=_or(model.retry_period, usual.retry_period),
    )


def _prometheus(model: PrometheusModel, folder: Path) -> PrometheusSettings:
    tls, basic = model.tls, model.basic_auth
    usual = PrometheusSettings(url=model.url)
    return PrometheusSettings(
        url=model.url,
        timeout=_or(model.timeout, usual.timeout),
        bearer_token_file=_path(model.bearer_token_file, folder),
        basic_auth=BasicAuth(basic.username, absolute(basic.password_file, folder))
        if basic
        else None,
        tls=Tls(
            ca_file=_path(tls.ca_file, folder),
            cert_file=_path(tls.cert_file, folder),
            key_file=_path(tls.key_file, folder),
            server_name=tls.server_name,
            insecure_skip_verify=bool(tls.insecure_skip_verify),
        )
        if tls
        else usual.tls,
        headers=dict(model.headers or {}),
        query_parameters=dict(model.query_parameters or {}),
    )


def _target(model: TargetModel, queries: Queries, sync_period: float) -> Target:
    spec = completed(model)
    return Target(
        namespace=model.namespace,
        spec=completed_to_core(spec),
        queries=tuple(queries.for_metric(metric) for metric in spec.metrics or ()),
        sync_period=_or(model.sync_period, sync_period),
    )
