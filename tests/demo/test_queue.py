"""The queue's simulation and its script."""

import math

import pytest

from autoscaler.demo.queue import QueueState, Workers, step
from autoscaler.demo.story import STORY, Phase, Story, vllm_requests

SCRIPT = Story((Phase("calm", 10, 1.0), Phase("burst", 5, 20.0), Phase("drain", math.inf, 0.5)))


def play(story: Story, seconds: int, ready: int) -> list[QueueState]:
    """Step once a second with the same workers."""
    states = [QueueState()]
    for second in range(1, seconds + 1):
        states.append(step(story, states[-1], float(second), Workers(ready, ready)))
    return states


@pytest.mark.parametrize(
    ("elapsed", "published", "phase"),
    [(0, 0, "calm"), (9.5, 9.5, "calm"), (10, 10, "burst"), (12, 50, "burst"), (25, 115, "drain")],
)
def test_messages_come_by_the_script(elapsed: float, published: float, phase: str) -> None:
    assert SCRIPT.published(elapsed) == published
    assert SCRIPT.phase_at(elapsed).name == phase


def test_workers_consume_at_their_rate_and_not_more_than_waits() -> None:
    """Two workers of 2/s keep up with 1/s, fall behind 20/s by 16/s, and end at an empty queue."""
    states = play(SCRIPT, 60, ready=2)
    assert {state.waiting for state in states[:11]} == {0}
    assert [state.waiting for state in states[11:16]] == [16, 32, 48, 64, 80]
    assert states[-1].waiting == 0
    assert all(state.consumed <= state.published for state in states)
    assert states[-1].published == pytest.approx(SCRIPT.published(60))
    assert play(SCRIPT, 15, ready=0)[-1].waiting == 110


def test_the_story_needs_more_than_one_worker_and_then_one_again() -> None:
    drowned = play(STORY, int(STORY.last_phase_at), ready=1)[-1]
    assert drowned.waiting > STORY.messages_per_worker * STORY.max_workers
    assert STORY.phases[0].rate < STORY.worker_rate
    assert STORY.phases[-1].rate < STORY.worker_rate


def test_requests_beyond_a_full_batch_wait() -> None:
    assert vllm_requests(0.0, 2, 1.0) == (16, 11.5)
    assert vllm_requests(0.0, 5, 1.0) == (11, 0)
    assert vllm_requests(0.0, 5, 0.5) == (5.5, 0)
