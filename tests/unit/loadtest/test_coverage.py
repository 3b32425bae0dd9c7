import pytest

from loadtest.coverage import Catalogue, bucket_shares
from loadtest.payloads import DEFAULT_MIX, Mix, Part, Payloads


def test_bucket_is_the_smallest_that_fits() -> None:
    """Rows and tokens each go to the next declared size."""
    catalogue = Catalogue.parse("1,4,8x16,32")
    assert [catalogue.bucket(*request) for request in ((1, 16), (2, 17), (4, 1), (5, 32))] == [
        "1x16",
        "4x32",
        "4x16",
        "8x32",
    ]


@pytest.mark.parametrize("text", ["", "1,4", "1x2x3", "4,1x16", "0x16", "ax16"])
def test_catalogue_that_cannot_be(text: str) -> None:
    """A catalogue that is misspelt or does not rise is refused by name."""
    with pytest.raises(ValueError, match="catalogue"):
        Catalogue.parse(text)


def test_shares_add_up() -> None:
    """Every request of the built-in mix has a bucket, and the shares add up to one."""
    shares = bucket_shares(Payloads(DEFAULT_MIX, seed=1), Catalogue.parse("1,4,8x16,32,64,128"))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert {"1x16", "1x32", "1x64", "1x128", "4x16", "4x32"} == set(shares)


def test_shares_hold_for_a_run_with_known_texts() -> None:
    """What `mix` prints is what a run with a reference sends."""
    catalogue = Catalogue.parse("1,4,8x16,32,64,128")
    plain, pooled = Payloads(DEFAULT_MIX, seed=4), Payloads(DEFAULT_MIX, seed=4, known=64)
    assert bucket_shares(plain, catalogue) == bucket_shares(pooled, catalogue)


def test_mix_outside_the_catalogue() -> None:
    """A mix that the catalogue does not cover is refused with the limits."""
    with pytest.raises(ValueError, match="at most 4 texts of 16 tokens"):
        bucket_shares(Payloads(Mix([Part("x", 1.0, (20, 20))]), seed=1), Catalogue.parse("1,4x16"))
