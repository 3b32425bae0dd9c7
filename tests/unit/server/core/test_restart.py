"""How often, and after what pause."""

from server.core.restart import MAX_PAUSE_S, RestartRule


def test_pauses_double_up_to_a_limit_and_the_restarts_end() -> None:
    """The loss after the last restart is the end."""
    rule = RestartRule(limit=8, back_off_s=1.0)
    pauses = [rule.pause_s(losses) for losses in range(1, 10)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_PAUSE_S, MAX_PAUSE_S, None]


def test_no_restart_at_all_is_a_choice() -> None:
    """The first loss is the end."""
    assert RestartRule(limit=0).pause_s(1) is None


def test_only_a_worker_that_was_ready_for_long_starts_the_count_anew() -> None:
    """One that dies in each warm-up gets to its end, however long the warm-up is."""
    rule = RestartRule(steady_s=600.0)
    assert rule.in_a_row(2, 0.0) == 3
    assert rule.in_a_row(2, 599.0) == 3
    assert rule.in_a_row(2, 600.0) == 1
