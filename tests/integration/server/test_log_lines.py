"""Every line of a real server's log has one form."""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.server.running import MODEL, tiny_model

ALWAYS = ("ts", "level", "event", "run_id", "model", "device", "dtype")
LATER = ("revision", "torch", "torch_tpu", "libtpu", "topology")


def test_every_line_says_what_serves(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """From the start on what the file says, from the loaded model on also what that is; the run's id is in health."""
    with start_server(model=tiny_model(tmp_path), catalogue={"batch": [1], "length": [8]}) as server:
        ready = server.wait_state("ready", "failed")
        assert server.embed("a").status_code == 200
        assert server.end() == 0
        events = server.events()
        assert all(tuple(event)[: len(ALWAYS)] == ALWAYS for event in events)
        assert {event["run_id"] for event in events} == {ready["run_id"]}
        assert {event["model"] for event in events} == {MODEL}
        names = [event["event"] for event in events]
        known = events[names.index("identity") :]
        assert all(set(LATER) <= set(event) for event in known)
        assert {event["torch"] for event in known} == {importlib.metadata.version("torch")}
        assert "ready" in names[names.index("identity") :]
