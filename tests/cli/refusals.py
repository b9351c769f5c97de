"""What a command must print if it cannot do what is asked."""

from tests.narrowing import assert_parts


def assert_refused(result: tuple[int, str, str], code: int, *parts: str) -> None:
    """Check the exit code, that there is no output, and the values of the one line of the error."""
    ended, out, err = result
    assert (ended, out, err.count("\n")) == (code, "", 1), err
    assert_parts(err, *parts)
