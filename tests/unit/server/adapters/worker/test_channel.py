"""Frames between front and worker."""

import socket
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.adapters.worker.channel import MAX_FRAME, Channel, FrameReader, FrontGone, ProtocolBroken, decode, encode
from server.core.signature import embedding
from server.core.tensors import Raw
from server.core.types import Bucket, BucketTiming, EngineFacts
from server.core.warmup import StabilityRule
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Lenient,
    Loaded,
    Run,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
)

START = Start(
    model_path="/m",
    sha256=None,
    device="tpu-emulator",
    emulator_allowed=True,
    dtype="bfloat16",
    matmul_precision="high",
    compile=None,
    threads=2,
    buckets=(Bucket(1, 16), Bucket(4, 32)),
    stability=StabilityRule(0.2, 4, 9),
    cache_dir="/c",
    front_pid=7,
)
FACTS = EngineFacts("rev", 30522, 384, 512, compiled=True, emulated=True, torch="2.13.0", torch_tpu="0.2.0",
                    signature=embedding(384))  # fmt: skip
EVENTS: list[WorkerEvent] = [
    Loaded(FACTS),
    BucketBegan(Bucket(1, 16)),
    BucketWarm(BucketTiming(Bucket(4, 32), 4.0, 0.02, 5, 1, "compiled")),
    Warmed(),
    Finished(3, {"y": Raw("UINT8", (1, 3), b"\x00\x01\xff")}, 0.01, 0),
    RunFailed(4, "bad", 0),
    Failed("no"),
    Beat(),
]
LENIENT = replace(START, lenient=Lenient(Bucket(8, 128), programs=9))
MESSAGES: list[Start | Run | WorkerEvent] = [
    START,
    LENIENT,
    Run(3, Bucket(1, 16), {"x": Raw("INT8", (1, 2), b"\x01\x00")}),
    *EVENTS,
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_equal(message: Start | Run | WorkerEvent) -> None:
    """Nested values and bytes included."""
    assert decode(encode(message)[4:]) == message


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_frames_survive_any_cut(cuts: list[int]) -> None:
    """A stream that arrives in pieces of any size gives the same messages."""
    stream = b"".join(encode(message) for message in MESSAGES)
    reader = FrameReader()
    got = []
    at = 0
    for cut in cuts:
        got += list(reader.feed(stream[at : at + cut]))
        at += cut
    got += list(reader.feed(stream[at:]))
    assert got == MESSAGES


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x92\xa7Unknown\x80", b"\x92\xa3Run\x80", b"\x01"])
def test_what_does_not_decode_is_a_broken_protocol(body: bytes) -> None:
    """Never a guess, never another exception."""
    with pytest.raises(ProtocolBroken):
        decode(body)


def test_a_frame_that_claims_too_much_is_refused_before_it_is_read() -> None:
    """A length from a confused peer must not become memory."""
    with pytest.raises(ProtocolBroken, match="at most"):
        list(FrameReader().feed(struct.pack("<I", MAX_FRAME + 1)))


def test_the_workers_end_reads_commands_and_notices_the_end() -> None:
    """None when the front closed its end, also in the middle of a frame."""
    front, end = socket.socketpair()
    channel = Channel(end)
    front.sendall(encode(START) + encode(START)[:10])
    front.close()
    assert channel.receive() == START
    assert channel.receive() is None
    end.close()


def test_the_workers_end_refuses_what_is_no_command() -> None:
    """An event from the front means that the two sides are confused."""
    front, end = socket.socketpair()
    with front, end:
        front.sendall(encode(Beat()))
        with pytest.raises(ProtocolBroken, match="Beat"):
            Channel(end).receive()


def test_sending_to_a_front_that_is_gone_says_so() -> None:
    """The worker ends on it, whatever it was doing."""
    front, end = socket.socketpair()
    front.close()
    with end, pytest.raises(FrontGone):
        Channel(end).send(Beat())
