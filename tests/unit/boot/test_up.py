"""Where the page may listen, and what is said where it may not."""

import argparse
import socket

import pytest

from rsure_web.boot.console import SetupError
from rsure_web.boot.up import _is_free, _port, _port_choose


@pytest.mark.parametrize("text", ["0", "-1", "65536", "9" * 40, "x", "", "80.5", "1e3"])
def test_what_is_no_port_is_told(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="whole numbers from 1 to 65535"):
        _port(text)


def test_a_port_in_use_is_told_from_an_address_of_another_machine() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not _is_free("127.0.0.1", port)
        with pytest.raises(SetupError, match=f"port {port} is in use"):
            _port_choose("127.0.0.1", port)
    assert _is_free("127.0.0.1", port)
    for host in ("203.0.113.7", "2001:db8::1", "x" * 300, "a..b"):
        with pytest.raises(SetupError, match="is no address of this machine") as told:
            _port_choose(host, port)
        assert told.value.status == 2
