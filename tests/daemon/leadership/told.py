"""What a candidate tells, and waiting for it."""

import threading
from dataclasses import dataclass, field

from autoscaler import clock
from autoscaler.daemon.leadership import ElectionObserver, Role


@dataclass
class Told(ElectionObserver):
    """The changes so far, each with the instant of `clock.monotonic` at which it was told."""

    changes: list[tuple[Role, str]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def role_changed(self, role: Role, sentence: str) -> None:
        """Take in a change."""
        with self._news:
            self.changes.append((role, sentence))
            self.at.append(clock.monotonic())
            self._news.notify_all()

    def fault(self, error: BaseException) -> None:
        """Take in a defect."""
        with self._news:
            self.faults.append(error)
            self._news.notify_all()

    @property
    def standings(self) -> list[Role]:
        """Where the candidate stood, one after the other."""
        return [standing for standing, _ in self.changes]

    def wait_for(self, standing: Role, after: float = 0.0, seconds: float = 30.0) -> float:
        """Return when a standing was told, since an instant."""
        found: list[float] = []

        def look() -> bool:
            found[:] = [
                at
                for (told, _), at in zip(self.changes, self.at, strict=True)
                if told is standing and at >= after
            ]
            return bool(found)

        with self._news:
            assert self._news.wait_for(look, seconds), f"{standing} was not told: {self.changes}"
        return found[0]
