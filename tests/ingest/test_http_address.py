"""What an address of a server is, and what a message shows of it."""

from __future__ import annotations

import pytest

from ingest.http_address import is_address, without_secrets

ODD_ADDRESSES = (
    "http://[me:s3cret@",
    "http://me:s3cret/4@h:9090",
    "http://me:1/s3cret@h:9090",
    "http://me:1?s3cret@h:9090",
    "http://me:1#s3cret@h:9090",
    "me:s3cret@h:9090",
    "http:/me:s3cret@h",
    "http:///me:s3cret@h",
    "http://me:s3cret\u2100@h",
)
"""Addresses with a password in them, each a little wrong."""


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("http://prometheus:9090", True),
        ("https://h/base", True),
        ("prometheus:9090", False),
        ("ftp://h", False),
        ("http://", False),
        ("http://h:port", False),
        *[(odd, False) for odd in ODD_ADDRESSES],
    ],
)
def test_what_is_an_address(url: str, good: bool) -> None:
    assert is_address(url) is good


def test_an_address_in_a_message_has_no_secrets() -> None:
    assert without_secrets("https://u:p@h:9090/base/?key=1#x") == "https://h:9090/base"


@pytest.mark.parametrize("url", ODD_ADDRESSES)
def test_invalid_address_is_not_printed(url: str) -> None:
    assert without_secrets(url) == "an address that cannot be used"
