"""What every HTTP client of the program shares: limits, retries, redaction and error classes.

Neither a server nor a proxy is trusted to end its answer, to keep it small, or to leave
our credentials out of it.
"""


class Observer:
    """Hears what clients report, on any thread; no method may block, and these do nothing."""

    def prometheus_request(self, server: str, status: str, seconds: float) -> None:
        """Observe a request to a named server: its HTTP status, if there was one, and its time."""

    def prometheus_sign_in_failed(self, server: str, sentence: str) -> None:
        """Observe that a request was not sent, since there are no credentials for it, and why."""

    def prometheus_retry(self, server: str, failure: str) -> None:
        """Observe that a query is tried again, after this failure."""

    def kubernetes_request(self, verb: str, status: str, seconds: float) -> None:
        """Observe a request: its HTTP status, if any, and its time, of a WATCH to its begin."""

    def kubernetes_retry(self, failure: str) -> None:
        """Observe that a call is tried again, after this failure."""

    def watch_changed(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - a callback's shape
        """Observe that objects can no longer be watched or listed, or can again."""

    def events_changed(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - as above
        """Observe that Kubernetes Events can no longer be written, or can again."""

    def fault(self, error: BaseException) -> None:
        """Observe a defect of the autoscaler, which continues."""


UNOBSERVED = Observer()
