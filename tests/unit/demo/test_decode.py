import msgspec
import pytest

from demo.decode import NotAsDocumented, decode
from demo.failures import DemoFailed
from wire.admin import Ports


def test_known_form() -> None:
    """What is as documented comes back as its type."""
    ports = Ports(data=1, admin=2, pid=3)
    assert decode(msgspec.json.encode(ports), Ports, "x") == ports


@pytest.mark.parametrize("raw", [b"", b"<html>", b'{"data": "one"}', b"[" * 100_000])
def test_unknown_form_names_its_source(raw: bytes) -> None:
    """Anything else ends the demo with the name of what said it."""
    with pytest.raises(NotAsDocumented, match="the gateway's status is not as documented: ") as told:
        decode(raw, Ports, "the gateway's status")
    assert isinstance(told.value, DemoFailed)
