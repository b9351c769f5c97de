"""What all HTTP clients of the program share: limits, retries, redaction and error classes.

No server or proxy is trusted to end its answer, to keep it small, or to omit our credentials.
"""


class Observer:
    """Receives reports of clients, on any thread. No method may block; these do nothing."""

    def prometheus_request(self, server: str, status: str, seconds: float) -> None:
        """Observe a request to a named server: its HTTP status, if any, and its duration."""

    def prometheus_sign_in_failed(self, server: str, sentence: str) -> None:
        """Observe that a request was not sent for lack of credentials, and why."""

    def prometheus_retry(self, server: str, failure: str) -> None:
        """Observe that a query is retried after this failure."""

    def kubernetes_request(self, verb: str, status: str, seconds: float) -> None:
        """Observe a request: its HTTP status, if any, and duration; of a WATCH until its start."""

    def kubernetes_retry(self, failure: str) -> None:
        """Observe that a call is retried after this failure."""

    def watch_changed(self, ok: bool, sentence: str) -> None:  # noqa: FBT001 - a callback's shape
        """Observe that objects can no longer be watched or listed, or can again."""

    def writes_changed(self, what: str, ok: bool, sentence: str) -> None:  # noqa: FBT001 - as above
        """Observe that "events", "statuses" or "deletion_costs" cannot be written, or can again."""

    def fault(self, error: BaseException) -> None:
        """Observe a defect of the autoscaler, which continues to run."""


UNOBSERVED = Observer()
