"""The locust side: a user that sends what the open loop says is due; also for ``locust -f loadtest/locustfile.py``.

Importing this patches sockets and threads for gevent, so it happens in a load process only.
"""

import logging
import sys
from pathlib import Path
from typing import Any, ClassVar

from locust import FastHttpUser, events, task
from locust.runners import LocalRunner

from loadtest.answers import BadAnswer, request_body
from loadtest.open_loop import OpenLoop
from loadtest.options import Options, OptionsError, mix_from
from loadtest.payloads import Mix, Payloads
from loadtest.publish import Publisher, report
from loadtest.reference import Ask, Source, ask_over_http, gather
from wire import headers, openai

_LOG = logging.getLogger("loadtest")
_HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}


class CatalogueUser(FastHttpUser):  # type: ignore[misc]  # locust has no types
    """One connection that sends due requests; ``open_loop`` is set before the users start."""

    open_loop: ClassVar[OpenLoop | None] = None
    max_redirects = 0

    @task  # type: ignore[untyped-decorator]  # locust has no types
    def send_due(self) -> None:
        loop = self.open_loop
        due = loop.take() if loop is not None else None
        if loop is None or due is None:
            return
        body = request_body(loop.options.model, due.payload.texts)
        with self.client.post(openai.PATH, data=body, headers=_HEADERS, catch_response=True, name="embed") as response:
            broken = response.request_meta["exception"]
            if response.status_code == 0 or (broken is not None and response.status_code == 200):
                ms = loop.lost(due, broken)  # no answer at all, or one that broke off
                response.failure(broken)
            else:
                ms = self._read(loop, due, response)
            # Locust's own statistics, too, count from the planned start.
            response.request_meta["response_time"] = ms

    def _read(self, loop: OpenLoop, due: Any, response: Any) -> float:
        # The header object looks names up without regard to case.
        head = response.headers
        try:
            return loop.answer(
                due,
                status=response.status_code,
                body=response.content or b"",
                arm=head.get(headers.ARM) or "",
                bucket=head.get(headers.BUCKET) or "",
                failover=bool(head.get(headers.FAILOVER)),
            )
        except BadAnswer as bad:
            response.failure(str(bad))
            return float(response.request_meta["response_time"])


def prepare(options: Options) -> OpenLoop:
    """The open loop of ``options``, reference vectors of both mixes fetched. Raises NoReference."""
    ask = ask_over_http(options.reference, options.model, timeout_s=options.timeout_s) if options.reference else None
    first = _source(options, options.mix, ask)
    then = _source(options, options.then_mix, ask) if options.then_mix is not None else None
    return OpenLoop(options, first, then, Publisher(options.out, sys.stderr))


def _source(options: Options, mix: Mix, ask: Ask | None) -> Source:
    if ask is None:
        return Source(Payloads(mix, seed=options.seed), None)
    payloads = Payloads(mix, seed=options.seed, known=options.known)
    return Source(payloads, gather(ask, [text for text, _ in payloads.known], dimension=options.dimension))


def _add_arguments(parser: Any) -> None:
    """Options of a plain ``locust -f``; host, users and run time are locust's own."""
    group = parser.add_argument_group("canary load")
    group.add_argument("--rate", type=float, default=10.0, env_var="CANARY_LOAD_RATE", help="requests a second")
    group.add_argument("--seed", type=int, default=1, env_var="CANARY_LOAD_SEED", help="seed of texts and gaps")
    group.add_argument("--model", default="all-MiniLM-L6-v2", env_var="CANARY_LOAD_MODEL", help="model name sent")
    group.add_argument("--mix-file", default="", env_var="CANARY_LOAD_MIX", help="JSON file with the mix of requests")
    group.add_argument("--then-mix", default="", env_var="CANARY_LOAD_THEN_MIX", help="JSON file with a second mix")
    group.add_argument("--then-when", default="", env_var="CANARY_LOAD_THEN_WHEN", help="file that begins --then-mix")
    group.add_argument("--out", default="", env_var="CANARY_LOAD_OUT", help="folder for live.json and stats.json")
    group.add_argument("--reference", default="", env_var="CANARY_LOAD_REFERENCE", help="endpoint of the right answers")


def _on_test_start(environment: Any, **_: Any) -> None:
    if CatalogueUser.open_loop is not None:
        return  # canary-loadtest run has prepared it
    if not isinstance(environment.runner, LocalRunner):
        _LOG.error("one schedule needs one process: run locust without --master, --worker and --processes")
        environment.runner.quit()
        return
    given = environment.parsed_options
    try:
        options = Options(
            host=environment.host or "",
            rate=given.rate,
            # Locust itself ends the run; a day is its longest.
            seconds=float(given.run_time or 24 * 3600),
            seed=given.seed,
            model=given.model,
            mix=mix_from(Path(given.mix_file) if given.mix_file else None, option="--mix-file"),
            then_mix=mix_from(Path(given.then_mix), option="--then-mix") if given.then_mix else None,
            then_when=Path(given.then_when) if given.then_when else None,
            out=Path(given.out) if given.out else None,
            reference=given.reference or None,
        )
    except OptionsError as wrong:
        for problem in wrong.problems:
            _LOG.error("%s", problem)
        environment.process_exit_code = 2
        environment.runner.quit()
        return
    CatalogueUser.open_loop = prepare(options)


def _on_spawning_complete(**_: Any) -> None:
    loop = CatalogueUser.open_loop
    if loop is not None and not loop.finished:
        loop.start()


def _on_test_stopping(**_: Any) -> None:
    loop = CatalogueUser.open_loop
    if loop is not None:
        loop.stop()
        print(report(loop.wait()), file=sys.stderr, flush=True)


events.init_command_line_parser.add_listener(_add_arguments)
events.test_start.add_listener(_on_test_start)
events.spawning_complete.add_listener(_on_spawning_complete)
events.test_stopping.add_listener(_on_test_stopping)
