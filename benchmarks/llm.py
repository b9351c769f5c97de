"""Counts for simulated model servers, of six autoscalers: `python -m benchmarks.llm`."""

from benchmarks.tables import markdown
from tests.worlds.llm_serving import HEAD, rows

if __name__ == "__main__":
    print(markdown(HEAD, list(rows())))
