"""Health bodies and identity."""

from dataclasses import replace

import pytest

from server.adapters.asgi.health import Served, health_body, identity_of
from server.core.lifecycle import Event, Life
from server.core.signature import embedding
from server.core.types import Bucket, BucketTiming, EngineFacts

SERVED = Served("m", "tpu-emulator", "bfloat16", "highest", "batch 1 x length 16", strict=True)
FACTS = EngineFacts(
    "rev",
    30522,
    384,
    512,
    compiled=True,
    emulated=True,
    torch="2.13.0",
    torch_tpu="0.2.0",
    topology="emulator",
    signature=embedding(384),
)


def test_the_body_tells_progress_while_warming() -> None:
    """Bucket i of n, the present one, seconds since the start, and what is warm already."""
    timing = BucketTiming(Bucket(4, 32), 4.0, 0.02, 5, 1, "compiled")
    life = Life(since=10.0, buckets=3).after(Event.SPAWNED, 11.0).after(Event.LOADED, 12.0)
    body = health_body(life.finished(timing).began(Bucket(1, 16)), FACTS, now=15.5)
    assert (body.state, body.bucket, body.buckets, body.current) == ("warming", 1, 3, "1x16")
    assert body.elapsed_s == 5.5
    assert body.cold_s is None
    assert [(each.bucket, each.first_s, each.source) for each in body.warm_up] == [("4x32", 4.0, "compiled")]


def test_an_emulator_says_so_in_its_health() -> None:
    """Whoever reads a number from it is told."""
    life = Life(since=0.0, buckets=1)
    assert "emulated" in health_body(life, FACTS, now=1.0).detail
    assert "emulated" not in health_body(life, replace(FACTS, emulated=False), now=1.0).detail
    assert "emulated" not in health_body(life, None, now=1.0).detail


@pytest.mark.parametrize(
    ("served", "facts", "tokenizer"),
    [
        (replace(SERVED, dtype="float32"), FACTS, "t"),
        (replace(SERVED, matmul_precision="medium"), FACTS, "t"),
        (replace(SERVED, catalogue="batch 2 x length 16"), FACTS, "t"),
        (replace(SERVED, strict=False), FACTS, "t"),
        (SERVED, replace(FACTS, revision="other"), "t"),
        (SERVED, replace(FACTS, torch="2.14.0"), "t"),
        (SERVED, replace(FACTS, emulated=False), "t"),
        (SERVED, FACTS, "u"),
    ],
)
def test_whatever_may_change_an_answer_changes_the_digest(served: Served, facts: EngineFacts, tokenizer: str) -> None:
    """Two servers with one digest answer alike."""
    assert identity_of(served, facts, tokenizer).digest() != identity_of(SERVED, FACTS, "t").digest()


def test_the_digest_is_the_same_for_the_same_server() -> None:
    """A restart changes nothing."""
    assert identity_of(SERVED, FACTS, "t").digest() == identity_of(SERVED, FACTS, "t").digest()
