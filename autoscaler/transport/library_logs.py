"""The log lines of libraries whose errors are told in our own sentences."""

import logging


def silence(library: str) -> None:
    """Keep what a library logs to itself: it may hold what was sent, and words of servers."""
    logging.getLogger(library).setLevel(logging.CRITICAL)
