"""Prints to readers that may be gone, or to disks that may be full, without a say in the exit code."""

import os
import sys
from typing import TextIO


def say(text: str, stream: TextIO, *, end: str = "\n") -> bool:
    """Print and flush; False when that was not possible, which is told on stderr unless the reader has just left."""
    try:
        print(text, file=stream, end=end, flush=True)
    except (OSError, ValueError) as lost:
        _mute(stream)
        if stream is not sys.stderr and not isinstance(lost, BrokenPipeError):
            say(f"canaryctl: cannot print: {lost}", sys.stderr)
        return False
    return True


def _mute(stream: TextIO) -> None:
    """What is still buffered would fail again when the interpreter ends, which would then exit with 120."""
    try:
        target = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError):
        return  # no file of the system is behind the stream, so nothing of it is left to fail
    os.dup2(nowhere, target)
    os.close(nowhere)
