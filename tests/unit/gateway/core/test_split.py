import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.split import SLOTS, Purpose, assign, fingerprint, sampled, slot
from gateway.core.types import Role

KEYS = [i.to_bytes(4, "big") for i in range(4000)]


@pytest.mark.parametrize(
    ("secret", "epoch", "key", "slots"),
    [
        (b"s", 0, b"", (930, 1953, 2152, 8358, 5308)),
        (b"secret", 1, b"tenant-a", (3927, 318, 3510, 4494, 3335)),
        (b"secret", 2, b"tenant-a", (3837, 4622, 5035, 1675, 8511)),
        (b"x" * 64, 7, bytes(range(16)), (1883, 2008, 1040, 3749, 6521)),
    ],
)
def test_slots_never_change_between_versions(secret: bytes, epoch: int, key: bytes, slots: tuple[int, ...]) -> None:
    """The slot of a key is fixed for ever: replicas of different versions must agree on it."""
    assert tuple(slot(secret, epoch, key, purpose) for purpose in Purpose) == slots


@given(
    st.binary(max_size=64), st.integers(0, 2**40), st.binary(max_size=64), st.integers(0, SLOTS), st.integers(0, SLOTS)
)
def test_raising_the_weight_moves_no_key_back(secret: bytes, epoch: int, key: bytes, a: int, b: int) -> None:
    """A key that is the candidate's at one weight is the candidate's at every higher weight of the epoch."""
    low, high = sorted((a, b))
    if assign(secret, epoch, key, low) is Role.CANDIDATE:
        assert assign(secret, epoch, key, high) is Role.CANDIDATE


@given(st.binary(max_size=64), st.integers(0, 2**40), st.binary(max_size=64))
def test_assignment_is_sticky(secret: bytes, epoch: int, key: bytes) -> None:
    """The same key gets the same arm every time, and weights 0 and 10,000 leave no choice."""
    assert assign(secret, epoch, key, 5000) is assign(secret, epoch, key, 5000)
    assert assign(secret, epoch, key, 0) is Role.BASELINE
    assert assign(secret, epoch, key, SLOTS) is Role.CANDIDATE


@pytest.mark.parametrize("weight", [100, 1000, 5000, 9000])
def test_share_matches_the_weight(weight: int) -> None:
    """Over many keys the candidate's share is the weight, within five standard deviations."""
    got = sum(assign(b"secret", 3, key, weight) is Role.CANDIDATE for key in KEYS)
    expected = len(KEYS) * weight / SLOTS
    assert abs(got - expected) < 5 * (expected * (1 - weight / SLOTS)) ** 0.5


def test_a_new_epoch_or_secret_draws_afresh() -> None:
    """Neither the last epoch's nor another run's assignment says anything about this one's."""
    first = [assign(b"secret", 1, key, 5000) for key in KEYS]
    for other in ([assign(b"secret", 2, key, 5000) for key in KEYS], [assign(b"other", 1, key, 5000) for key in KEYS]):
        agree = sum(a is b for a, b in zip(first, other, strict=True))
        assert abs(agree - len(KEYS) / 2) < 5 * (len(KEYS) / 4) ** 0.5


def test_copies_are_drawn_independently_of_the_assignment() -> None:
    """Among the candidate's keys and among the baseline's the same share is sampled for a copy."""
    for role in Role:
        keys = [key for key in KEYS if assign(b"secret", 1, key, 5000) is role]
        got = sum(sampled(b"secret", 1, key, 3000, Purpose.COPY_TO_CANDIDATE) for key in keys)
        assert abs(got - 0.3 * len(keys)) < 5 * (0.21 * len(keys)) ** 0.5


def test_sampling_all_or_none_asks_no_hash() -> None:
    """Share 0 samples nothing and share 10,000 everything."""
    assert not any(sampled(b"s", 1, key, 0, Purpose.COPY_TO_BASELINE) for key in KEYS[:50])
    assert all(sampled(b"s", 1, key, SLOTS, Purpose.COPY_TO_BASELINE) for key in KEYS[:50])


def test_a_fingerprint_tells_keys_apart_and_nothing_of_their_arm() -> None:
    """64 bits of their own for each secret, epoch and key; the same share of either arm's keys has an even one."""
    prints = [fingerprint(b"secret", 1, key) for key in KEYS]
    others = fingerprint(b"another", 1, KEYS[0]), fingerprint(b"secret", 2, KEYS[0])
    assert len({*prints, *others}) == len(KEYS) + 2
    assert max(prints) < 2**64
    assert prints[0] == fingerprint(b"secret", 1, KEYS[0])
    for role in Role:
        got = [n % 2 for n, key in zip(prints, KEYS, strict=True) if assign(b"secret", 1, key, 5000) is role]
        assert abs(sum(got) - 0.5 * len(got)) < 5 * (0.25 * len(got)) ** 0.5
