"""The answer to a request, received in time and within bounds."""

from collections.abc import Mapping
from dataclasses import dataclass

import urllib3

from autoscaler.transport.bodies import Encoded, TooLarge, read_body
from autoscaler.transport.redaction import Hiding

MIB = 1 << 20
MOST_BYTES = 16 * MIB
"""Of an answer.  One object of 1.5 MiB, as large as etcd takes them, has six times that in JSON
where every character is escaped; a page of 500 pods has 2 to 10 MiB."""
MOST_MEMORY = 128 * MIB
"""Of an answer once it is parsed."""


@dataclass(frozen=True, slots=True, repr=False)
class Received:
    """An answer without our credentials; ``unread`` says why there is no payload."""

    status: int
    headers: Mapping[str, str]
    payload: bytes = b""
    unread: str = ""
    too_large: bool = False


def receive(response: urllib3.HTTPResponse, until: float, hiding: Hiding) -> Received:
    """Read an answer before an instant; raises what the client raises."""
    status, headers = response.status, response.headers
    try:
        payload = read_body(response, until, MOST_BYTES)
    except (Encoded, TooLarge) as error:
        too_large = isinstance(error, TooLarge)
        return Received(status, headers, unread=str(error), too_large=too_large)
    except TimeoutError:
        raise urllib3.exceptions.TimeoutError("the answer is not complete") from None
    success = 200 <= status <= 299
    return Received(status, headers, hiding.data(payload) if success else hiding.refusal(payload))
