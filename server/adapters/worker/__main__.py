"""Entry of the worker process: ``python -m server.adapters.worker FD``, started by the front only."""

import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from server.adapters.worker.channel import Channel, FrontGone
from server.adapters.worker.devices import choose_device
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.environment import die_with_front, installed_versions, obey_the_front_only, prepare
from server.adapters.worker.folder import inspect
from server.core.types import DeviceMemory
from server.ports.worker import Beat, Failed, Profile, Profiled, ProfileEnd, Run, Start

BEAT_S: Final = 1.0


def main(arguments: list[str]) -> int:
    """Reads Start, then serves until the front closes its end. 0: the front went; 1: the engine failed."""
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    obey_the_front_only()
    start = channel.receive()
    if not isinstance(start, Start):
        return 0
    try:
        die_with_front(start.front_pid)
        pulse = _Pulse(channel)
        pulse.start()
        _serve(channel, start, pulse)
    except EngineFailed as error:
        channel.send(Failed(str(error)))
        return 1
    except FrontGone:
        return 0
    except Exception as error:  # the front shows the reason; the trace goes to the log
        traceback.print_exc()
        channel.send(Failed(f"worker: {type(error).__name__}: {error}"))
        return 1
    return 0


def _serve(channel: Channel, start: Start, pulse: "_Pulse") -> None:
    folder = inspect(Path(start.model_path), start.model_format, start.sha256, Path(start.cache_dir))
    cache = prepare(start, installed_versions())
    # From here on the environment is set, so torch may be imported.
    from server.adapters.worker.loaders import load_model
    from server.adapters.worker.profiling import Profiling
    from server.adapters.worker.session import Session

    session = Session(start, choose_device(start), channel.send, cache)
    pulse.memory = lambda: session.memory
    profiling = Profiling()
    session.warm(session.load(load_model(folder, start)), profiling if start.profile else None)
    while (command := channel.receive()) is not None:
        match command:
            case Run():
                channel.send(session.run(command))
                _tell(channel, profiling.ran())
            case Profile():
                profiling.begin(command)
            case ProfileEnd(number):
                _tell(channel, profiling.end(number))
            case Start():
                pass  # There is one, and it came first.


def _tell(channel: Channel, event: Profiled | None) -> None:
    if event is not None:
        channel.send(event)


class _Pulse(threading.Thread):
    """Signs of life, whatever the device does. A front that no longer reads is gone, and then so is this process."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(name="beat", daemon=True)
        self._channel = channel
        self.memory: Callable[[], DeviceMemory | None] = lambda: None

    def run(self) -> None:
        while True:
            try:
                self._channel.send(Beat(self.memory()))
            except FrontGone:
                os._exit(0)
            time.sleep(BEAT_S)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Interpreter shutdown of a device runtime may hang or crash; nothing is left to save here.
    os._exit(code)
