"""What the API costs a daemon that nobody asks."""

import subprocess
import sys


def test_nothing_of_it_is_loaded_before_the_first_request() -> None:
    """FastAPI and the models take 10 MB."""
    code = (
        "import sys, autoscaler.daemon.service\n"
        "from autoscaler.web import api, pages\n"
        "api.routes(lambda: None), pages.routes(lambda: None)\n"
        "print('fastapi' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
