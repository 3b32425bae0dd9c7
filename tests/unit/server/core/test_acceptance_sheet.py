"""The sheet judges what the processes left, whatever is missing."""

from dataclasses import replace

import pytest

from server.core.acceptance_checks import Asked, Found
from server.core.acceptance_sheet import NOT_WIDENED, sheet_of
from server.core.sheet import Outcome, Sheet, markdown
from server.core.signature import embedding
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

SAME = Difference(1.0, 0.0, 1e-7, 1e-4, 0, 800, finite=True)
RUN = BucketRun(Bucket(2, 8), 3.0, 4, 0.01, 0.01, 0.02, 20, 1, 0, "compiled", SAME)
ASKED = Asked("m", "torch-export", "cpu", "float32", "highest", "batch 2 x length 8", 1, 1, "eager", FLOAT32,
              "2026-11-30T10:00:00", "3.11", "box", "0.1 on 2 cores", None, {"torch": "2.13.0", "torch_tpu": None},
              ())  # fmt: skip
PLACED = Placed("eager", 1.0, False, None, (RUN,), None, "the CPU has none", 10**8, None, Checkpoint(9, 99, 0, True))
SERVICE = Service(2.0, (ServedBucket(Bucket(2, 8), 30, 0, 5.0, 4.0, "eager"),), 900, 0, 10.0, 8, 90.0, 10.0, 20.0, 0)
REFERENCE = Reference("rev", embedding(4), 99, "seeded", 1000, 4000, Audit(50, 9))
FOUND = Found(
    Part(REFERENCE),
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
    assert "torch_tpu | not available: not installed" in text
    assert "peak device memory | not available: the CPU has none" in text
    assert "compiled: compile and load of programs | 2.99 s |" in text
    assert "- {path: outputs.*, datatypes: [BF16, FP16, FP32, FP64], rule: cosine, min: 0.99999" in text


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
    sheet = sheet_of(ASKED, replace(FOUND, reference=Part(replace(REFERENCE, audit=audit))))
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


def test_a_model_that_is_served_has_to_be_answered() -> None:
    """A server that does not start is no gap in the sheet."""
    down = replace(FOUND, service=Part(None, "the server ended with exit code 1"))
    assert outcome(sheet_of(ASKED, down), "service: answers") is Outcome.FAILED
    assert not sheet_of(ASKED, down).accepted


def test_packages_that_do_not_fit_fail_the_sheet() -> None:
    """An installer may have brought a torch that torch_tpu does not take."""
    sheet = sheet_of(replace(ASKED, unmet=("torch_tpu wants torch<=2.15.0, has 2.16.0",)), FOUND)
    assert outcome(sheet, "environment: unmet requirements") is Outcome.FAILED


def test_no_tolerance_is_made_from_answers_that_failed() -> None:
    """It would be widened to fit."""
    for part in (changed(beyond=1), changed(finite=False), Part(None, "it does not load")):
        listing = sheet_of(ASKED, replace(FOUND, eager=part)).listing
        assert listing.lines == ()
        assert listing.why == (part.error or NOT_WIDENED)
    assert sheet_of(ASKED, FOUND).listing.lines


def test_eager_calls_that_compiled_nothing_have_no_compile_time() -> None:
    """A slow first call is one, and no compilation."""
    slow = replace(RUN, source="eager", compiles=0)
    table = sheet_of(ASKED, replace(FOUND, eager=Part(replace(PLACED, buckets=(slow,))))).tables[0]
    (row,) = table.rows
    found = dict(zip((name for name, _ in table.columns), row, strict=True))
    assert (found["first s"], found["compile s"], found["warm ms"]) == (3.0, 0.0, 10.0)


def test_a_tpu_says_its_slice_or_why_not() -> None:
    """What GKE told the container."""
    asked = replace(ASKED, device="tpu", served="compiled", slice="v5litepod-1 1x1")
    assert "| TPU slice | v5litepod-1 1x1 |" in markdown(sheet_of(asked, FOUND))
    assert "| TPU slice | not available: neither variable is set" in markdown(
        sheet_of(replace(asked, slice=None), FOUND)
    )
