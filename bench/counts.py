"""A stream, split between the arms and counted the way the gateway counts it, and the way a metrics store shows it."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.ground import Ground
from bench.streams import BASELINE, CANDIDATE, Bools, Floats, Stream

Ints = npt.NDArray[np.int64]

WINDOW_S: Final = 10
MINUTE_S: Final = 60
SHARE: Final = 10_000
"""Weights and shares of copies are basis points of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Who answered what. Copies are of requests that the baseline served, and are paired with its answer.

    candidate, baseline, copied: requests. failed, slower: by arm (rows), slower also by limit (p50, p95, p99).
    differs: pairs whose outputs differ, where both arms answered.
    """

    stream: Stream
    candidate: Bools
    baseline: Bools
    copied: Bools
    failed: Bools
    slower: Bools
    differs: Bools

    def without_copies(self) -> "Traffic":
        """The same requests, none of them copied."""
        return replace(self, copied=np.zeros_like(self.copied))

    def of_size(self, size: int) -> "Traffic":
        """Those of one size alone."""
        its = self.stream.size == size
        return replace(self, candidate=self.candidate & its, baseline=self.baseline & its, copied=self.copied & its)


def split(stream: Stream, ground: Ground, *, weight_bp: int, copies_bp: int, parity_rate: float) -> Traffic:
    """``weight_bp`` of the requests to the candidate, ``copies_bp`` of the others copied to it, by chance alone."""
    candidate = stream.split_draw < weight_bp / SHARE
    copied = ~candidate & (stream.copy_draw < copies_bp / SHARE)
    return Traffic(
        stream=stream,
        candidate=candidate,
        baseline=~candidate,
        copied=copied,
        failed=stream.error_draw < stream.error_rate * ground.error_scale,
        slower=np.stack([stream.ms > limit for limit in ground.limits_ms]),
        differs=stream.parity_draw < parity_rate,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """What the gateway's judge is given: windows of WINDOW_S and seconds, all counts by arrival.

    latency: [window, limit, (candidate n, k, baseline n, k)]. error: [window, the same four].
    parity: [window, (pairs, pairs that differ)]. answered: successful answers of the candidate.
    complete_at: the whole second at which the last answer of a window is in.
    seconds: [second, (candidate attempts, failed, baseline attempts, failed)].
    """

    latency: Ints
    error: Ints
    parity: Ints
    answered: Ints
    complete_at: Ints
    seconds: Ints


def windows(traffic: Traffic) -> Windows:
    """Live requests and copies, both: a copy that the candidate answers is evidence like a live request."""
    stream = traffic.stream
    whole = stream.seconds // WINDOW_S
    window = (stream.arrival / WINDOW_S).astype(np.intp)
    to_candidate = traffic.candidate | traffic.copied
    sent = ((CANDIDATE, to_candidate), (BASELINE, traffic.baseline))
    error, latency = [], []
    for arm, mask in sent:
        ok = mask & ~traffic.failed[arm]
        answered = _per(window, ok, whole)
        latency.append([(answered, _per(window, ok & slow[arm], whole)) for slow in traffic.slower])
        error += [_per(window, mask, whole), _per(window, mask & traffic.failed[arm], whole)]
    pairs = traffic.copied & ~traffic.failed.any(axis=0)
    second = stream.arrival.astype(np.intp)
    return Windows(
        latency=np.stack([np.stack([*c, *b], axis=1) for c, b in zip(*latency, strict=True)], axis=1),
        error=np.stack(error, axis=1),
        parity=np.stack([_per(window, pairs, whole), _per(window, pairs & traffic.differs, whole)], axis=1),
        answered=latency[0][0][0],
        complete_at=_complete_at(traffic, window, whole),
        seconds=np.stack(
            [
                column
                for arm, mask in sent
                for column in (
                    _per(second, mask, stream.seconds),
                    _per(second, mask & traffic.failed[arm], stream.seconds),
                )
            ],
            axis=1,
        ),
    )


def _complete_at(traffic: Traffic, window: npt.NDArray[np.intp], whole: int) -> Ints:
    """Failures are quick here, so only answers are waited for."""
    stream = traffic.stream
    done = (np.arange(whole) + 1.0) * WINDOW_S
    for arm, mask in ((CANDIDATE, traffic.candidate | traffic.copied), (BASELINE, traffic.baseline)):
        ok = mask & ~traffic.failed[arm]
        np.maximum.at(done, window[ok], stream.arrival[ok] + stream.ms[arm][ok] / 1000.0)
    # A later window cannot be closed before an earlier one.
    return np.ceil(np.maximum.accumulate(done)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """What a metrics store shows a rule that reads it every minute: live requests only, and pairs.

    rates: [minute, (p99, error, parity), (n, k)] of the candidate. quantiles: [minute, arm, (p50, p95, p99)] in
    milliseconds, NaN without an answer. errors: [minute, arm], share of failed requests, NaN without a request.
    """

    rates: Ints
    quantiles: Floats
    errors: Floats


def minutes(traffic: Traffic) -> Minutes:
    """Per minute of arrival, complete and without the delay that a real metrics store adds."""
    stream = traffic.stream
    whole = stream.seconds // MINUTE_S
    minute = (stream.arrival / MINUTE_S).astype(np.intp)
    live = traffic.candidate
    ok = live & ~traffic.failed[CANDIDATE]
    pairs = traffic.copied & ~traffic.failed.any(axis=0)
    rates = [
        (_per(minute, ok, whole), _per(minute, ok & traffic.slower[2, CANDIDATE], whole)),
        (_per(minute, live, whole), _per(minute, live & traffic.failed[CANDIDATE], whole)),
        (_per(minute, pairs, whole), _per(minute, pairs & traffic.differs, whole)),
    ]
    quantiles, errors = np.full((whole, 2, 3), np.nan), np.full((whole, 2), np.nan)
    for arm, mask in ((CANDIDATE, live), (BASELINE, traffic.baseline)):
        sent, failed = _per(minute, mask, whole), _per(minute, mask & traffic.failed[arm], whole)
        np.divide(failed, sent, out=errors[:, arm], where=sent > 0)
        answered = mask & ~traffic.failed[arm]
        edges = np.cumsum(_per(minute, answered, whole))[:-1]
        for row, ms in zip(quantiles[:, arm], np.split(stream.ms[arm][answered], edges), strict=True):
            if ms.size:
                row[:] = np.quantile(ms, (0.50, 0.95, 0.99))
    return Minutes(
        rates=np.stack([np.stack(pair, axis=1) for pair in rates], axis=1), quantiles=quantiles, errors=errors
    )


def bad_live(traffic: Traffic, until: float) -> int:
    """Live requests before ``until`` seconds that the candidate failed, or answered beyond the p99 limit."""
    bad = traffic.candidate & (traffic.failed[CANDIDATE] | traffic.slower[2, CANDIDATE])
    return int(bad[: np.searchsorted(traffic.stream.arrival, until)].sum())


def _per(bin_: npt.NDArray[np.intp], mask: Bools, bins: int) -> Ints:
    return np.bincount(bin_[mask], minlength=bins).astype(np.int64)
