from typing import Any

import msgspec
import pytest

from ctl.layout import WIDTH, figure
from ctl.status_view import full, one_line
from wire.admin import FieldView, NoiseView, OutlookView, PairedView, ParityView, StratumView


def test_line_of_an_idle_gateway(sample: Any) -> None:
    """Without a run the line is state and weight."""
    assert one_line(sample["status"](state="idle", weight=0, run=None, verdict=None)) == "idle  0 %"


def test_line_of_an_ended_run(sample: Any) -> None:
    """An ended run shows outcome, weight, metric and rule instead of the step."""
    run = sample["run"](outcome="rolled_back", decided_weight=1000, metric="error", rule="breaker", state="rolled_back")
    line = one_line(sample["status"](state="rolled_back", weight=0, run=run, verdict=None))
    assert line == "rolled_back  0 %  rolled_back at 10 % for error by breaker"


def test_full_view_fits_100_columns_and_holds_everything(sample: Any) -> None:
    """Verdict, missing evidence, arms, metrics, parity, run and workers are all there within 100 columns."""
    text = full(sample["status"]())
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    for part in (
        "HOLD: lat_p95: 1 of 80 above 400 ms", "80 events, 12 more needed", "control off", "tpu-emulator*",
        "* emulated", "p95   p99",
        "warming bucket 3 of 12", "1 bad of 80", "min cosine 0.99123", "r7 of demo", "ann@desk: try the new chips",
        "w0 pid 42", "sqlite",
    ):  # fmt: skip
        assert part in text, part


def test_classes_of_requests_are_shown_only_where_there_are_any(sample: Any) -> None:
    """Each class has its name, its own E and its metrics, within 100 columns."""
    status = sample["status"]()
    assert "Requests" not in full(status)
    names = ("up to 1048576 B", "1048577 to 16777216 B", "above 16777216 B")
    strata = [StratumView(name=name, evidence=4.25, metrics=status.verdict.metrics) for name in names]
    verdict = msgspec.structs.replace(status.verdict, strata=strata)
    text = full(msgspec.structs.replace(status, verdict=verdict))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    rows = [line for line in text.splitlines() if "(E 4.2)" in line]
    assert [row.partition(" (")[0] for row in rows] == list(names)
    assert all("lat_p95" in row and "1 bad of 80" in row for row in rows)


def test_paired_latency_is_one_line_where_there_is_any(sample: Any) -> None:
    """Printed as the gateway says it."""
    assert "\nLatency" not in full(sample["status"]())
    status = msgspec.structs.replace(sample["status"](), paired=PairedView(pairs=9, text="candidate / baseline: 1.8x"))
    assert "candidate / baseline: 1.8x" in next(
        line for line in full(status).splitlines() if line.startswith("Latency")
    )


def test_the_noise_floor_is_one_paragraph_where_one_is_wanted(sample: Any) -> None:
    """Printed as the gateway says it, under its own name."""
    assert "\nNoise" not in full(sample["status"]())
    status = msgspec.structs.replace(sample["status"](), noise=NoiseView(wanted=200, text="noise floor: 0 of 9 pairs"))
    (line,) = (line for line in full(status).splitlines() if line.startswith("Noise"))
    assert line.split() == ["Noise", "0", "of", "9", "pairs"]


def test_fields_that_differ_and_pairs_left_out_are_shown(sample: Any) -> None:
    """Each field with its kinds and worst figures; one that agrees takes no line."""
    fields = [
        FieldView(
            content="oip_infer", field="outputs.*", pairs=40, bad=3, kinds={"ok": 37, "tolerance": 2, "shape": 1},
            figures={"overlap": 0.25},
        ),
        FieldView(content="oip_infer", field="(rest)", pairs=40, bad=0, kinds={"ok": 40}),
    ]  # fmt: skip
    parity = ParityView(pairs=40, bad=3, fields=fields, not_compared={"sampled": 5, "queue_full": 1})
    text = " ".join(full(sample["status"](parity=parity)).split())
    assert "6 not compared (queue_full 1, sampled 5)" in text
    assert "outputs.* of oip_infer: 3 of 40 pairs differ (shape 1, tolerance 2); worst: overlap 0.25" in text
    assert "(rest)" not in text


def test_unready_arm_is_loud(sample: Any) -> None:
    """An arm that is not ready reads NO, one that is reads yes."""
    rows = [line.split() for line in full(sample["status"]()).splitlines() if line.startswith(("cpu", "tpu"))]
    assert [row[2] for row in rows] == ["yes", "NO"]


def test_long_names_give_way(sample: Any) -> None:
    """A very long arm name is cut, the figures stay."""
    status = sample["status"]()
    arm = msgspec.structs.replace(status.arms[1], name="x" * 90)
    text = full(msgspec.structs.replace(status, arms=[arm]))
    row = next(line for line in text.splitlines() if line.startswith("xxx"))
    assert len(row) <= WIDTH
    assert "450" in row
    assert row.split()[-5:] == ["0", "1", "-", "-", "-"]


def test_outcome_tells_time_to_zero(sample: Any) -> None:
    """A rolled-back run says how many live requests the candidate had and when the weight was 0 everywhere."""
    run = sample["run"](
        outcome="rolled_back", decided_weight=1000, decided_at=1_800_000_000.0, live_candidate_requests=77,
        time_to_zero_ms=31.4,
    )  # fmt: skip
    text = " ".join(full(sample["status"](run=run)).split())
    assert "77 live requests had gone to the candidate" in text
    assert "weight 0 everywhere after 31 ms" in text
    assert "2027-01-15 08:00:00Z" in text


def test_no_workers(sample: Any) -> None:
    """A gateway without workers says none."""
    assert "none; newest snapshot 9" in full(sample["status"](workers=[]))


def test_nothing_that_a_gateway_sends_steers_the_terminal(sample: Any) -> None:
    """The worst pair has the id that a client gave it."""
    text = full(sample["status"](parity=ParityView(pairs=1, bad=1, worst="request \x9b2J\x1b]0;t: x")))
    assert not any(c != "\n" and not c.isprintable() for c in text)


def test_overrides_and_a_count_that_is_not_whole_are_said(sample: Any) -> None:
    """Who passed which step without evidence; at least so many."""
    run = sample["run"](
        outcome="PROMOTED", decided_weight=10_000, live_candidate_requests=77, live_complete=False,
        overrides=["step 1 by bob"],
    )  # fmt: skip
    text = full(sample["status"](state="done", weight=10_000, run=run, verdict=None))
    assert "PROMOTED at 100 % by override (step 1 by bob)" in text
    assert "at least 77 live requests" in text


def test_an_open_run_shows_what_was_expected_of_it(sample: Any) -> None:
    """The times of the start and how long the present step may last; an ended run has neither."""
    outlook = OutlookView(rate=50.0, step_s=[300.0, 840.0], horizon_s=7200.0, text="At 50 a second: 1 % about 14 min.")
    run = sample["run"](outlook=outlook, longest_step_s=7200.0)
    text = full(sample["status"](run=run))
    assert "Expected  At 50 a second: 1 % about 14 min." in text
    assert "the present step may last 2 h; then a person decides" in text
    ended = msgspec.structs.replace(run, outcome="PROMOTED", decided_weight=10_000)
    assert "14 min" not in full(sample["status"](run=ended))


def test_a_terminal_of_80_columns_shows_every_figure_whole(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a number is another number: the gaps give way, then names, never what was counted."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    status = sample["status"]()
    strata = [StratumView(name="51 to 4096 B", evidence=0.657, metrics=status.verdict.metrics)]
    arms = [msgspec.structs.replace(arm, live=123_456, copies=65_432) for arm in status.arms]
    verdict = msgspec.structs.replace(status.verdict, strata=strata)
    text = full(msgspec.structs.replace(status, verdict=verdict, arms=arms))
    assert max(map(len, text.splitlines())) <= 80
    assert "(E 0.66)" in text
    heads, row = (line.split() for line in text.split("\n\n")[2].splitlines()[:2])
    assert heads[-1] == "p99"
    assert row[-1] == figure(status.arms[0].latency.p99, 3)
