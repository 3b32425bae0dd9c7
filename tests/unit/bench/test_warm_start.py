"""What is made of two starts."""

from bench.warm_start import Start, problems, table

COLD, WARM = Start(6, 0, 6, 12.0, 20.0), Start(0, 6, 6, 3.0, 10.0)


def test_a_start_is_read_from_the_health_body() -> None:
    """Sources and first calls of its shapes."""
    shapes = [{"source": "cache", "first_s": 1.0}, {"source": "compiled", "first_s": 2.5}]
    assert Start.of({"warm_up": shapes, "cold_s": 9.0}, 1.0) == Start(1, 1, 2, 3.5, 9.0)


def test_the_table_has_the_ratio_of_each_round_and_the_medians() -> None:
    """Of first calls and of the whole start."""
    lines = table([(COLD, WARM), (COLD, Start(0, 6, 6, 6.0, 20.0)), (COLD, WARM)]).splitlines()
    assert lines[2] == "| 1 | 6, 0 | 6 of 6 | 4.0 | 2.0 |"
    assert lines[-1] == "| median | | | 4.0 | 2.0 |"


def test_a_compile_at_the_second_start_and_a_small_gain_are_problems() -> None:
    """One slow round of three is none."""
    slow = Start(0, 6, 6, 12.0, 20.0)
    assert problems([(COLD, WARM), (COLD, slow), (COLD, WARM)]) == []
    assert "1.00 times as long" in problems([(COLD, slow)])[0]
    assert "compiled 1, 5 of 6 from cache" in problems([(COLD, Start(1, 5, 6, 3.0, 10.0))])[0]
    assert "the first start compiled 0 of 6" in problems([(WARM, WARM)])[0]
