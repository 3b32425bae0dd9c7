import pytest

from gateway.core.budget import Budget


def test_takes_up_to_the_limit() -> None:
    """What is held never exceeds the limit, and a refused amount holds nothing."""
    budget = Budget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.taken == 6
    assert budget.take(4)
    assert not budget.take(1)


def test_given_back_can_be_taken_again() -> None:
    """What is given back is there for the next."""
    budget = Budget(10)
    assert budget.take(10)
    budget.give(7)
    assert budget.take(7)


def test_refuses_to_take_back_more_than_it_gave() -> None:
    """Giving back too much is a fault of the caller and is said so."""
    budget = Budget(10)
    budget.take(3)
    with pytest.raises(ValueError, match="amount: 4 must lie between 0 and 3"):
        budget.give(4)
    with pytest.raises(ValueError, match="limit: -1"):
        Budget(-1)
