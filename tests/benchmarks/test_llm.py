"""The comparison for model servers is as published, and better than llm-d's result."""

from pathlib import Path

from benchmarks.tables import markdown
from tests.worlds.llm_serving import HEAD, OURS, rows, score, shapes, sides

ROOT = Path(__file__).parents[2]
PUBLISHED_SHARE, PUBLISHED_REPLICAS = 0.958, 5.93
"""llm-d's result on eight replicas of two H100, bounds 3 to 8, 100 s to load."""


def test_the_results_have_the_table() -> None:
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert markdown(HEAD, list(rows())) in results


def test_the_servers_give_the_law_of_llm_d_about_its_published_result() -> None:
    found = score(sides()["llm-d's formula in KEDA"], shapes()["llm-d's stairs"])
    assert abs(found.attained - PUBLISHED_SHARE) < 0.01
    assert abs(found.replicas - PUBLISHED_REPLICAS) < 0.25


def test_the_example_meets_the_objective_more_often_with_fewer_replicas() -> None:
    found = score(sides()[OURS], shapes()["llm-d's stairs"])
    assert found.attained > PUBLISHED_SHARE
    assert found.replicas < PUBLISHED_REPLICAS


def test_a_burst_overshoots_by_one_pod_although_the_model_loads_for_three_minutes() -> None:
    burst = shapes()["burst"]
    ours, law = score(sides()[OURS], burst), score(sides()["llm-d's formula in KEDA"], burst)
    assert ours.overshoot <= 1
    assert law.overshoot == burst.most - burst.needed
    assert ours.replicas < 0.7 * law.replicas
    assert ours.attained > law.attained - 0.01


def test_loading_pods_compound_where_a_formula_multiplies_by_the_replicas() -> None:
    wave = shapes()["wave"]
    ours, compounding = (score(sides()[name], wave) for name in (OURS, "KEDA, ratio x replicas"))
    assert compounding.overshoot == wave.most - wave.needed > 2 * ours.overshoot
