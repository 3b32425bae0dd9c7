from typing import Any

import pytest

from demo.frame import HEIGHT, WIDTH, bar, frame, one_line
from demo.load_view import Load
from demo.scenarios import SCENARIOS
from demo.scene import Scene
from demo.sizing import Sizing


def scene(make: Any, name: str = "crash") -> Scene:
    return Scene(
        SCENARIOS[name],
        phase="canary",
        now=83.0,
        health={"baseline": make.health(), "candidate": make.health(source="cache")},
        urls={"gateway": "http://127.0.0.1:1", "gateway admin": "http://127.0.0.1:2/v1/status", "baseline": "http://b"},
        sizing=Sizing(412.0, 8.1, "tpu", {}),
        status=make.status(),
        load=Load(planned=41, sent=40, failures=0, compared=9),
    )


def test_full_view_fits_the_terminal(make: Any) -> None:
    """With the longest verdict and list of missing evidence the view keeps to 100 columns and 30 rows."""
    busy = scene(make)
    busy.fault_at = 80.0
    lines = frame(busy)
    assert len(lines) <= HEIGHT
    assert max(len(text) for text, _ in lines) <= WIDTH
    assert lines[-1][0].startswith("baseline      http://b"), "the addresses at the foot are not pushed out"
    assert sum(text.endswith(" ...") for text, _ in lines) == 2, "that verdict and list go on is shown"


def test_the_longest_step_line_loses_nothing(make: Any) -> None:
    """State, weight, limit and load all fit, however long they get."""
    busy = scene(make)
    busy.sizing = Sizing(34743.0, 10.24, "tpu", {})
    step_since = busy.status.at - 103 if busy.status else 0.0
    busy.status = make.status(state="rolled_back", weight=10000, run=make.run(step_since=step_since))
    (line,) = (text for text, _ in frame(busy) if text.startswith("canary "))
    assert line.endswith("100 %   rolled_back   step 2/4, 103 s   L 34743 ms   load 10.24/s")


def test_view_holds_what_is_asked(make: Any) -> None:
    """Weight, step, limit, counts, percentiles, parity, clients, verdict, missing, evidence, fault: all are there."""
    text = "\n".join(line for line, _ in frame(scene(make)))
    for part in (
        "crash: the candidate drops its connections", "1:23", "10 %   stepping   step 2/4, 14 s   L 412 ms",
        "load 8.1/s", "emulated: XLA on CPU, not TPU speed or arithmetic", "stands in for the GPU", "900", "450",
        "77.7", "NOT READY", "120 pairs, 0 bad, min cosine 0.991230", "sent 40 of 41, failures 0", "HOLD not_proven",
        "12 more needed", "E 0.61 of 20", "after 5 s at 10 % or more: connections", "http://127.0.0.1:2/v1/status",
    ):  # fmt: skip
        assert part in text, part


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_fault_is_cut_off(make: Any, name: str) -> None:
    """What the fault is can be read to its last word, before it begins and while it lasts."""
    calm, broken = scene(make, name), scene(make, name)
    broken.fault_at = -120.0
    for shown in (calm, broken):
        lines = [text for text, _ in frame(shown)]
        said = lines[next(n for n, text in enumerate(lines) if text.startswith("fault ")) :]
        told = " ".join(" ".join(said[: said.index("")]).split())
        assert told.endswith("none in this scenario" if name == "good" else SCENARIOS[name].fault_text)
        assert len(lines) <= HEIGHT


def test_fault_is_shown_while_it_lasts(make: Any) -> None:
    """Once begun, the fault is on screen with its age; the healthy scenario says there is none."""
    broken = scene(make)
    broken.fault_at = 79.0
    assert any(text.startswith("fault      for 4 s: connections") for text, _ in frame(broken))
    assert any("none in this scenario" in text for text, _ in frame(scene(make, "good")))


def test_warm_up_progress(make: Any) -> None:
    """Before there is a gateway the view shows each server's progress by bucket."""
    warming = Scene(SCENARIOS["good"], phase="baseline warm-up", now=3.0)

    def servers() -> list[str]:
        return [line for line, _ in frame(warming) if line.startswith(("baseline ", "candidate "))]

    assert servers() == [
        "baseline   cpu  cpu float32  starting",
        "candidate  tpu  tpu-emulator bfloat16  starts once the baseline is warm",
    ]
    warming.health["baseline"] = make.health(state="warming", bucket=3, buckets=12, current="4x64")
    first, second = servers()
    assert first.endswith("warm-up [#####---------------] bucket 3 of 12, now 4x64")
    assert second.endswith("starts once the baseline is warm")
    warming.health["baseline"] = make.health()
    first, second = servers()
    assert first.endswith("ready, 12 buckets in 8.0 s (eager)")
    assert second.endswith("starting")


def test_one_line(make: Any) -> None:
    """Without a terminal one line says phase, time, state, verdict, counts and failures."""
    line = one_line(scene(make))
    assert line.startswith("canary  83 s  stepping 10 %  HOLD not_proven E 0.61 of 20  cpu 900+0 p95 40.0")
    assert "sent 40 failed 0" in line
    assert one_line(Scene(SCENARIOS["good"])) == "starting  0 s"


@pytest.mark.parametrize(("share", "full"), [(-1.0, 0), (0.0, 0), (0.5, 10), (1.0, 20), (7.0, 20)])
def test_bar_is_bounded(share: float, full: int) -> None:
    """A bar has twenty cells whatever the share."""
    assert bar(share) == "[" + "#" * full + "-" * (20 - full) + "]"
