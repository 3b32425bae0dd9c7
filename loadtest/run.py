"""``canary-loadtest run``: one open loop in this process, ended by its schedule, a signal or a stop file."""

import signal
import sys

import gevent
from locust import events
from locust.env import Environment

from loadtest.locustfile import CatalogueUser, prepare
from loadtest.open_loop import OpenLoop
from loadtest.options import Options
from loadtest.reference import NoReference


def run(options: Options) -> int:
    """0 without failures, 1 with some, 2 when the reference could not be fetched."""
    interrupted = gevent.event.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, interrupted.set)
    try:
        loop = prepare(options)
    except NoReference as missing:
        print(f"--reference {options.reference}: {missing}", file=sys.stderr)
        return 2
    if interrupted.is_set():
        return 1
    CatalogueUser.open_loop = loop
    CatalogueUser.network_timeout = CatalogueUser.connection_timeout = options.timeout_s
    environment = Environment(user_classes=[CatalogueUser], host=options.host, events=events)
    runner = environment.create_local_runner()
    gevent.spawn(_stop_when, interrupted, loop)
    runner.start(options.users, spawn_rate=options.users)
    stats = loop.wait()
    runner.quit()  # fires test_stopping, which prints the report
    return 1 if stats.failures or stats.unsent or not stats.planned else 0


def _stop_when(interrupted: gevent.event.Event, loop: OpenLoop) -> None:
    interrupted.wait()
    loop.stop()
