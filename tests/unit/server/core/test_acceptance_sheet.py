"""The sheet judges what the processes left, whatever is missing."""

from dataclasses import replace

import pytest

from server.core.acceptance_sheet import Asked, Found, sheet_of
from server.core.sheet import Outcome, Sheet, markdown
from server.core.smoke import (
    Audit,
    BucketRun,
    Checkpoint,
    Difference,
    Part,
    Placed,
    Reference,
    ServedBucket,
    Service,
)
from server.core.tolerance import FLOAT32
from server.core.types import Bucket

SAME = Difference(1.0, 0.0, 1e-7, 0, 800, finite=True)
RUN = BucketRun(Bucket(2, 8), 3.0, 4, 0.01, 0.01, 0.02, 20, 1, 0, "compiled", SAME)
ASKED = Asked("m", "torch-export", "cpu", "float32", "highest", "batch 2 x length 8", 1, 1, "eager", FLOAT32, "now",
              "3.11", "box", {"torch": "2.13.0", "torch_tpu": None})  # fmt: skip
PLACED = Placed("eager", 1.0, False, None, (RUN,), None, "the CPU has none", 10**8, None, Checkpoint(9, 99, 0, True))
SERVICE = Service(2.0, (ServedBucket(Bucket(2, 8), 30, 0, 5.0, 4.0, "eager"),), 400, 0, 8, 90.0, 10.0, 20.0, 0)
FOUND = Found(
    Part(Reference("rev", 1000, 4000, Audit(50, 9))),
    Part(PLACED),
    Part(replace(PLACED, mode="compiled", checkpoint=None)),
    Part(SERVICE),
)


def outcome(sheet: Sheet, name: str) -> Outcome:
    return next(check.outcome for check in sheet.checks if check.name == name)


def changed(**difference: object) -> Part[Placed]:
    run = replace(RUN, difference=replace(SAME, **difference))  # type: ignore[arg-type]  # fields of Difference
    return Part(replace(PLACED, buckets=(run,)))


def test_a_good_run_is_accepted_with_every_field_filled() -> None:
    """Host overhead is what a request costs beside the device."""
    sheet = sheet_of(ASKED, FOUND)
    assert sheet.accepted
    text = markdown(sheet)
    assert "20.0 %" in text
    assert "torch_tpu, installed | not available: not installed" in text
    assert "peak device memory, bytes | not available: the CPU has none" in text


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (changed(cosine_min=0.99), "eager: parity with the CPU in float32"),
        (changed(length_rel=0.01), "eager: parity with the CPU in float32"),
        (changed(beyond=1), "eager: parity with the CPU in float32"),
        (changed(finite=False), "eager: finite"),
        (Part(replace(PLACED, buckets=(replace(RUN, compiles_after=1),))), "eager: nothing compiles after warm-up"),
        (Part(replace(PLACED, checkpoint=Checkpoint(9, 99, 1, True))), "checkpoint round trip"),
        (Part(replace(PLACED, checkpoint=Checkpoint(9, 99, 0, False))), "checkpoint round trip"),
        (Part(None, "it does not load"), "eager: runs"),
    ],
)
def test_what_is_wrong_fails_its_own_check(part: Part[Placed], name: str) -> None:
    """And with it the sheet."""
    sheet = sheet_of(ASKED, replace(FOUND, eager=part))
    assert outcome(sheet, name) is Outcome.FAILED
    assert not sheet.accepted


def test_a_mode_that_is_not_served_may_be_missing_on_pytorchs_own_devices_only() -> None:
    """An image without a C++ compiler serves eager; a TPU serves compiled, and eager comes first there."""
    found = replace(FOUND, compiled=Part(None, "no C++ compiler"))
    assert outcome(sheet_of(ASKED, found), "compiled: runs") is Outcome.NOT_AVAILABLE
    assert sheet_of(ASKED, found).accepted
    for device, served in (("cpu", "compiled"), ("tpu", "eager")):
        asked = replace(ASKED, device=device, served=served)  # type: ignore[arg-type]  # both are allowed ones
        assert outcome(sheet_of(asked, found), "compiled: runs") is Outcome.FAILED


def test_what_binds_a_model_to_cuda_is_named() -> None:
    """Calls, operators of one's own, and code."""
    audit = Audit(5, 2, ("mine::op",), ("aten::_cudnn_rnn",), ("x.Model",), 1, ("aten::nonzero",))
    sheet = sheet_of(ASKED, replace(FOUND, reference=Part(Reference("r", 1, 4, audit))))
    failed = {check.name for check in sheet.checks if check.outcome is Outcome.FAILED}
    assert len(failed) == 5
    assert "mine::op" in markdown(sheet)


def test_without_any_process_every_field_says_why() -> None:
    """Nothing is accepted then."""
    nothing = Found(Part(None, "gone"), Part(None, "gone"), Part(None, "gone"), Part(None, "gone"))
    sheet = sheet_of(ASKED, nothing)
    assert not sheet.accepted
    assert "not available: gone" in markdown(sheet)


def test_an_emulator_is_called_one_and_its_switch_is_looked_at() -> None:
    """A silent fallback to the CPU would hide as latency."""
    asked = replace(ASKED, device="tpu-emulator")
    for fallback, wanted in ((False, Outcome.PASSED), (True, Outcome.FAILED), (None, Outcome.NOT_AVAILABLE)):
        found = replace(FOUND, eager=Part(replace(PLACED, emulated=True, fallback=fallback)))
        sheet = sheet_of(asked, found)
        assert sheet.note.startswith("Emulated")
        assert outcome(sheet, "port audit: CPU fallback") is wanted
