"""What a data worker allows its clients, and what it says when that or its own means run short."""

import logging
import resource
import sys

import pytest

from gateway.worker import WARN_EVERY_S, Seldom, client_limit


@pytest.mark.parametrize(
    ("descriptors", "clients"), [(1024, 512), (256, 128), (20, 16), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_clients_get_half_of_the_file_descriptors(descriptors: int, clients: int) -> None:
    """The other half is for the arms; a few clients are always let in."""
    assert client_limit(descriptors) == clients


def test_a_warning_comes_seldom_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    """The first cause is told at once, those of the next minute together with the one after it."""
    now = 5.0
    seldom = Seldom("turned_away", "too many", lambda: now)
    for _ in range(3):
        seldom.note(limit=7)
    now += WARN_EVERY_S
    seldom.note(limit=7)
    told = [vars(record)["fields"] for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [{"event": "turned_away", "count": n, "limit": 7} for n in (1, 3)]
