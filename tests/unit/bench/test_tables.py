from bench.scoring import FaultRow, NullRow
from bench.tables import fault_table, null_table, pass_table


def null(rule: str, seed: int, rolled_back: int, before_pass: int, median_s: float | None = None) -> NullRow:
    return NullRow(
        kind="heavy",
        ground="aa",
        weight_bp=1000,
        rule=rule,
        seed=seed,
        runs=100,
        rolled_back=rolled_back,
        before_pass=before_pass,
        passed=60 if median_s else 40,
        passed_median_s=median_s,
    )


def test_the_judges_counts_stand_seed_set_by_seed_set() -> None:
    """Own rules show each seed set; a peer the share of all runs, and of those before it had passed."""
    rows = [
        null("ours", 1, 0, 0),
        null("flagger-like", 1, 90, 30),
        null("ours", 2, 3, 3),
        null("flagger-like", 2, 100, 20),
    ]
    assert null_table(rows).splitlines() == [
        "| stream | limits | weight | ours | flagger-like |",
        "| --- | --- | --- | --- | --- |",
        "| heavy | aa | 10 % | 0/100 · 3/100 | 95 % (25 %) |",
    ]


def test_a_fault_shows_share_seconds_and_damage() -> None:
    """A dash stands where too few rolled back to give the number."""
    row = FaultRow(
        fault="stall",
        weight_bp=1000,
        rule="ours",
        runs=100,
        early=20,
        found=60,
        passed_first=8,
        median_s=601.0,
        p95_s=None,
        bad_live=81.6,
    )
    assert fault_table([row]).splitlines()[-1] == (
        "| stall | 75 % · 601 / – s · 82 bad (passed 10 %); 20 % rolled back before it |"
    )


def test_a_healthy_candidate_shows_when_it_was_let_on() -> None:
    """The median of the seed sets' medians; the share alone where half of the runs were not let on."""
    rows = [
        null("ours", 1, 0, 0, 600.0),
        null("ours", 2, 0, 0, 640.0),
        null("slow", 1, 0, 0, 600.0),
        null("slow", 2, 0, 0),
    ]
    assert pass_table(rows).splitlines()[-1] == "| heavy | aa | 10 % | 60 % · 620 s | 50 % |"
