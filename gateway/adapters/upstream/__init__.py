"""Connections to one arm: HTTP/1.1 on asyncio.Protocol and httptools, kept alive, told about by call-backs."""

from gateway.adapters.upstream.pool import Pool
from gateway.adapters.upstream.sweeper import Sweeper

__all__ = ["Pool", "Sweeper"]
