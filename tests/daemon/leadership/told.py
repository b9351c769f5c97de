"""What a candidate tells, and waiting for it."""

from dataclasses import dataclass, field

from autoscaler import clock
from autoscaler.daemon.leadership import ElectionObserver, Role
from tests.worlds.waiting import wait_until


@dataclass
class Told(ElectionObserver):
    """The changes so far, each with the instant of `clock.monotonic` at which it was told."""

    changes: list[tuple[Role, str]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    def role_changed(self, role: Role, sentence: str) -> None:
        """Take in a change."""
        self.at.append(clock.monotonic())
        self.changes.append((role, sentence))

    def fault(self, error: BaseException) -> None:
        """Take in a defect."""
        self.faults.append(error)

    @property
    def standings(self) -> list[Role]:
        """Where the candidate stood, one after the other."""
        return [standing for standing, _ in self.changes]

    def wait_for(self, standing: Role, after: float = 0.0, seconds: float = 30.0) -> float:
        """Return when a standing was told, since an instant."""

        def found() -> list[float]:
            told = zip(self.standings, self.at, strict=False)
            return [at for one, at in told if one is standing and at >= after]

        return wait_until(f"{standing} is told", found, timeout=seconds, interval=0.005)[0]
