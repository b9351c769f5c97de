"""Converts a ScaledObject of KEDA to a target.

https://keda.sh/docs/latest/reference/scaledobject-spec/
"""

import re

from autoscaler.migrate.drafts import ALWAYS_ZERO, Comment, SharedSettings, TargetDraft, external
from autoscaler.migrate.fields import Fields, KeyOutcome, not_filled_in, placeholder, placeholders
from autoscaler.migrate.keda.authentications import Authentications
from autoscaler.migrate.keda.metadata import is_false, is_true
from autoscaler.migrate.keda.scaling_modifiers import add_composite
from autoscaler.migrate.keda.triggers import Triggers

_PAUSED = "autoscaling.keda.sh/paused"
_REPLICAS = f"{_PAUSED}-replicas"
_IN, _OUT = f"{_PAUSED}-scale-in", f"{_PAUSED}-scale-out"
_FORCED = "autoscaling.keda.sh/force-activation"
_IGNORED = {
    "scaledobject.keda.sh/transfer-hpa-ownership": (
        "nothing here takes over an HPA: delete an existing one yourself"
    ),
    "scaledobject.keda.sh/hpa-excluded-labels": "there is no HPA here that has labels",
    "validations.keda.sh/hpa-ownership": (
        "there is no webhook here: a target that an HPA controls is not written"
    ),
}
_LONGEST_COUNT = 9


def paused_of(fields: Fields) -> object:
    """Return `paused` for the annotations of a ScaledObject; None if it is not paused."""
    annotations = fields.within("metadata", "annotations")
    for key, why in _IGNORED.items():
        if annotations.peek(key) is not None:
            annotations.ignored(key, why=why)
    if is_true(_text(annotations, _FORCED)):
        why = "it keeps the target awake: use `schedules`, or a `minReplicas` without `idle`"
        annotations.refused(_FORCED, why=why)
    elif annotations.peek(_FORCED) is not None:
        annotations.ignored(_FORCED, why="it is off")
    given = {key: annotations.get(key) for key in (_PAUSED, _REPLICAS, _IN, _OUT)}
    if given[_REPLICAS] is not None:
        return _paused_replicas(annotations)
    if given[_PAUSED] is not None and not is_false(_text(annotations, _PAUSED)):
        return True
    # KEDA treats any other text as a pause, too.
    down, up = (
        given[key] is not None and not is_false(_text(annotations, key)) for key in (_IN, _OUT)
    )
    if down and up:
        return True
    return "scaleDown" if down else "scaleUp" if up else None


def _paused_replicas(annotations: Fields) -> object:
    count = _text(annotations, _REPLICAS)
    if count.isdecimal() and count.isascii() and len(count) <= _LONGEST_COUNT:
        return {"replicas": int(count)}
    annotations.different(_REPLICAS, why="is not a number, so KEDA fails: here it is a pause")
    return True


def _text(annotations: Fields, key: str) -> str:
    value = annotations.peek(key)
    return str(value).lower() if isinstance(value, bool) else str(value)


_MOST_REPLICAS = 100
"""KEDA's default of maxReplicaCount; the default of minReplicaCount is 0."""
_COOLDOWN = 300
_PERIOD = 15
"""How often the HPA of a ScaledObject, and a target here, decides, in seconds."""
_LARGEST = 2**31 - 1
_WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": ""}
"""The fields of a scaleTargetRef, with KEDA's defaults."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9./-]{0,251}[A-Za-z0-9])?")

_BEHAVIORS = ("static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower")
_NIL = "scalingModifiers"
"""The behavior, since KEDA 2.20, by which a trigger that fails is nil in a formula."""
_NO_FALLBACK = (
    "a trigger that fails is nil in KEDA's formula, and -1 without a formula; here only "
    "`??` replaces a missing value, and without a value nothing is scaled down"
)
_RESTORED = (
    "set restoreToOriginalReplicaCount to false in the ScaledObject before you delete it: else "
    "KEDA restores the replicas from before KEDA, even under load"
)
_KEPT = (KeyOutcome.CARRIED, KeyOutcome.DIFFERENT)
_NO_METRICS = "without `metrics` a target scales on cpu at 80 percent: write the metrics"
_NO_USE = "it has no use where nothing goes to zero"
_NOT_A_COUNT = "is not a whole number of 0 or more, so the API server refuses it"


def draft_of(
    fields: Fields,
    authentications: Authentications,
    shared: SharedSettings,
    namespace: str = "default",
) -> TargetDraft:
    """Convert a ScaledObject, which is in this namespace if it names none."""
    return _ScaledObject(fields, namespace).draft(authentications, shared)


class _ScaledObject:
    def __init__(self, fields: Fields, namespace: str) -> None:
        self._fields = fields
        self._spec = fields.within("spec")
        own = str(fields.peek("metadata", "namespace") or namespace)
        self._names = own, str(fields.peek("metadata", "name") or "query")
        self._target: dict[str, object] = {}
        self._comments: list[Comment] = []

    def draft(self, authentications: Authentications, shared: SharedSettings) -> TargetDraft:
        refusal = self._refusal()
        if refusal:
            return TargetDraft({}, refusal=refusal)
        modifiers = self._spec.within("advanced", "scalingModifiers")
        formula = bool(modifiers.value)
        triggers = Triggers(*self._names, authentications, shared, formula)
        triggers.read(self._spec)
        if formula:
            knows_nil = self._spec.peek("fallback", "behavior") == _NIL
            add_composite(modifiers, triggers, shared, knows_nil=knows_nil)
        self._reference()
        self._bounds(triggers, shared)
        self._fallback(triggers)
        paused = paused_of(self._fields)
        if paused is not None:
            self._target["paused"] = paused
        if triggers.schedules:
            self._target["schedules"] = triggers.schedules
        if triggers.metrics:
            self._target["metrics"] = triggers.metrics
        else:
            self._spec.refused("triggers", why=_NO_METRICS)
        self._advanced()
        self._placeholders()
        comments = [*self._comments, *triggers.comments]
        return TargetDraft(self._target, comments, secrets=triggers.secrets)

    def _refusal(self) -> str:
        """Return why it is refused as a whole; empty if it is not."""
        if self._fields.peek("spec", "jobTargetRef") is not None:
            return "it starts Jobs, which have no replicas to set: nothing here is its counterpart"
        reference = self._spec.within("scaleTargetRef")
        if not isinstance(reference.peek("name"), str) or not reference.peek("name"):
            if reference.peek("deploymentName") is not None:
                return (
                    "its scaleTargetRef has `deploymentName`, which KEDA 2 refuses: write `name` "
                    "in place of it"
                )
            return (
                "its scaleTargetRef names no workload: import the whole manifest, as your tool "
                "renders it"
            )
        triggers = self._spec.peek("triggers")
        if not isinstance(triggers, list) or not triggers:
            return "it has no triggers, without which KEDA scales nothing"
        return self._refused_bounds()

    def _refused_bounds(self) -> str:
        """Return what KEDA refuses about its counts."""
        low, high = (self._whole(key) for key in ("minReplicaCount", "maxReplicaCount"))
        idle = self._whole("idleReplicaCount")
        most = _MOST_REPLICAS if high is None else high
        # KEDA counts a minimum of 0 that is written as 1.
        least = 0 if low is None else max(low, 1)
        if least > most:
            return (
                f"its minReplicaCount is {low} and its maxReplicaCount {most}, which KEDA refuses: "
                "the maximum must be at least the minimum, and at least 1"
            )
        if idle is not None and idle >= least and not self._placeholder("minReplicaCount"):
            return (
                f"its idleReplicaCount {idle} is not below its minReplicaCount {least}, as KEDA "
                "requires: write a smaller one, or leave it out"
            )
        return ""

    def _whole(self, *keys: str) -> int | None:
        """Return a count without recording an outcome."""
        value = self._spec.peek(*keys)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if 0 <= value <= _LARGEST else None

    def _placeholder(self, *keys: str) -> str:
        return placeholder(self._spec.peek(*keys))

    def _count(self, *keys: str) -> int | None:
        """Return a count to convert; None without a valid one."""
        value = self._whole(*keys)
        if value is not None:
            self._spec.get(*keys)
        elif self._spec.peek(*keys) is not None:
            found = self._placeholder(*keys)
            self._spec.refused(*keys, why=not_filled_in(found) if found else _NOT_A_COUNT)
        return value

    def _reference(self) -> None:
        reference = self._spec.within("scaleTargetRef")
        container = "envSourceContainerName"
        if reference.peek(container) is not None:
            why = "it names the container whose environment KEDA reads; nothing here reads it"
            reference.ignored(container, why=why)
        written: dict[str, object] = {}
        for key, default in _WORKLOAD.items():
            value = written[key] = reference.get(key) or default
            if found := placeholder(value):
                reference.refused(key, why=not_filled_in(found))
            elif not isinstance(value, str) or _NAME.fullmatch(value) is None:
                reference.refused(
                    key, why="is not a valid Kubernetes name: write the name of the workload"
                )
        self._target["scaleTargetRef"] = written

    def _polling(self, *, goes_idle: bool) -> None:
        seconds = self._count("pollingInterval")
        if seconds is None or seconds == _PERIOD:
            return
        if goes_idle:
            why = (
                f"KEDA polls every {seconds} s for what wakes the target or lets it sleep, and its "
                f"HPA syncs every {_PERIOD} s: here both happen every {_PERIOD} s"
            )
            self._spec.different("pollingInterval", why=why)
        else:
            why = f"KEDA's HPA syncs every {_PERIOD} s regardless, and the target never goes idle"
            self._spec.ignored("pollingInterval", why=why)

    def _bounds(self, triggers: Triggers, shared: SharedSettings) -> None:
        low, high = self._count("minReplicaCount"), self._count("maxReplicaCount")
        idle = self._count("idleReplicaCount")
        self._windows_alone(triggers, shared, to_zero=idle is not None or not low)
        least = max(low or 1, 1)
        most = _MOST_REPLICAS if high is None else high
        if least != 1:
            self._target["minReplicas"] = least
        self._target["maxReplicas"] = most
        for window in triggers.schedules:  # as the HPA of a ScaledObject holds every count
            count = window["minReplicas"]
            window["minReplicas"] = (
                min(max(count, least), most) if isinstance(count, int) else least
            )
        self._idle(triggers, low, idle)

    def _windows_alone(self, triggers: Triggers, shared: SharedSettings, *, to_zero: bool) -> None:
        """Add a metric that is never active to a target that only cron triggers activate."""
        if not triggers.schedules or triggers.lost or triggers.metrics_of_queries():
            return
        if triggers.metrics and not to_zero:
            return
        name = shared.query("always-zero", ALWAYS_ZERO, "for targets that schedules alone scale")
        triggers.metrics.append(external(name, "AverageValue", 1))

    def _idle(self, triggers: Triggers, low: int | None, idle: int | None) -> None:
        goes_idle = triggers.can_be_active and (idle is not None or not low)
        self._polling(goes_idle=goes_idle)
        if goes_idle:
            self._target["idle"] = self._idle_settings(idle)
            return
        for key in ("cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount"):
            if self._spec.peek(key) is not None:
                self._spec.ignored(key, why=_NO_USE)
        for metric in triggers.metrics:
            metric.pop("activation", None)
        for trigger in self._spec.each("triggers"):
            for key in ("activationThreshold", "activationValue"):
                entry = trigger.outcome("metadata", key)
                if trigger.peek("metadata", key) is not None and entry and not entry.why:
                    trigger.ignored("metadata", key, why=_NO_USE)
        if triggers.can_be_active or low:
            return
        why = "cpu and memory alone never go to zero, and KEDA refuses 0 with them: it is 1"
        if self._spec.peek("minReplicaCount") is not None:
            self._spec.different("minReplicaCount", why=why)
        self._comments.append(Comment(("maxReplicas",), why))

    def _idle_settings(self, idle: int | None) -> dict[str, object]:
        settings: dict[str, object] = {}
        if idle:
            settings["replicas"] = idle
        after, initially = (self._count(f"{key}Period") for key in ("cooldown", "initialCooldown"))
        if after is not None and after != _COOLDOWN:
            settings["after"] = f"{after}s"
        if initially:
            settings["initially"] = f"{initially}s"
        return settings or {"replicas": 0}

    def _fallback(self, triggers: Triggers) -> None:
        fallback = self._spec.within("fallback")
        if not fallback.value:
            return
        if not triggers.can_be_active:
            why = "KEDA refuses it where all triggers are of cpu or memory: leave it out"
            self._spec.refused("fallback", why=why)
            return
        if fallback.peek("behavior") == _NIL:
            fallback.different("behavior", why=_NO_FALLBACK)
            for key in fallback.value.keys() & {"failureThreshold", "replicas"}:
                fallback.ignored(key, why=f"it has no use with the behavior {_NIL}")
            return
        self._target["fallback"] = self._fallback_settings(fallback)

    def _fallback_settings(self, fallback: Fields) -> dict[str, object]:
        threshold, replicas = (
            self._count("fallback", key) for key in ("failureThreshold", "replicas")
        )
        behavior = fallback.peek("behavior")
        settings: dict[str, object] = {} if replicas is None else {"replicas": replicas}
        if fallback.peek("replicas") is None:
            fallback.refused("replicas", why="is required: the API server refuses it without")
        if threshold == 0:
            why = "the fallback begins at the first failure in KEDA, and so it does here with 1"
            fallback.different("failureThreshold", why=why)
        elif threshold is not None:
            why = "KEDA starts it after as many failed polls, here it starts at this failed sync"
            fallback.different("failureThreshold", why=why)
        if threshold is not None and threshold != 3:
            settings["failureThreshold"] = max(threshold, 1)
        if behavior in _BEHAVIORS:
            fallback.get("behavior")
            if behavior != "static":
                settings["behavior"] = behavior
        elif behavior is not None:
            why = (
                f"must be one of {', '.join((*_BEHAVIORS, _NIL))}: the API server refuses all else"
            )
            fallback.refused("behavior", why=why)
        return settings

    def _advanced(self) -> None:
        advanced = self._spec.within("advanced")
        restores = advanced.peek("restoreToOriginalReplicaCount")
        if restores in (False, "false"):
            why = "a target that is taken away leaves its count"
            advanced.ignored("restoreToOriginalReplicaCount", why=why)
        elif restores is not None:
            advanced.different("restoreToOriginalReplicaCount", why=_RESTORED)
            self._comments.insert(0, Comment((), _RESTORED))
        config = advanced.within("horizontalPodAutoscalerConfig")
        if config.peek("name") is not None:
            config.ignored("name", why="there is no HPA here that has a name")
        behavior = config.get("behavior")
        if isinstance(behavior, dict):
            self._target["behavior"] = behavior
        if advanced.peek("scalingModifiers") == {}:
            advanced.ignored("scalingModifiers", why="it is empty")

    def _placeholders(self) -> None:
        """Refuse unresolved placeholders anywhere in the converted keys."""
        for location, found in placeholders(self._spec.value):
            entry = self._spec.outcome(*location)
            if entry is not None and entry.outcome in _KEPT:
                self._spec.refused(*location, why=not_filled_in(found))
