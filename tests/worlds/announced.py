"""A daemon's announcements, and where they arrive."""

from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.service_manager import Notifier
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics


class Announced:
    """Announcements with the health and the metrics that they reach."""

    def __init__(self, health: Health | None = None) -> None:
        self.health = health or Health()
        self.metrics = Metrics(self.health)
        self.announcements = Announcements(self.health, self.metrics.instruments, Notifier({}))

    def component(self, name: str) -> tuple[bool, str] | None:
        """Return whether a component is ok, and its message; None if it has reported nothing."""
        found = [
            (state.ok, state.message) for state in self.health.components() if state.name == name
        ]
        return found[0] if found else None
