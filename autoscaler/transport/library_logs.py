"""The log lines of libraries whose errors are told in our own sentences."""

import logging


def silence(library: str) -> None:
    """Keep what a library logs to itself: it may hold words of servers, which may hold secrets."""
    logger = logging.getLogger(library)
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
