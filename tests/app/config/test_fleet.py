"""The section [fleet] of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.config import settings as config
from app.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_files_of_a_fleet_are_beside_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text(
        '[fleet]\nclusters = ["c/*.toml"]\nlake = "ducklake:lake.db"\nlake_files = "s3://bucket/lake"\n'
        'tls_ca = "ca.pem"\ntls_cert = "/etc/cert.pem"\ntls_key = "key.pem"\n'
    )
    fleet = config.load(tmp_path / "trackside.toml").fleet
    assert fleet.clusters == (str(tmp_path / "c/*.toml"),)
    assert (fleet.lake, fleet.lake_files) == (tmp_path / "ducklake:lake.db", "s3://bucket/lake")
    assert list(map(str, (fleet.tls_ca, fleet.tls_cert, fleet.tls_key))) == [
        f"{tmp_path}/ca.pem",
        "/etc/cert.pem",
        f"{tmp_path}/key.pem",
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"scheduler": "scheduler.example.org:8786"}, "write it like tls://"),
        ({"scheduler": "tcp://me:secret@db:8786"}, "write it like tls://"),
        ({"scheduler": "tls://db:8786", "workers": 2}, "workers and scheduler exclude each other"),
        ({"tls_ca": "ca.pem", "tls_key": "key.pem"}, "tls_ca, tls_cert and tls_key belong together"),
        ({"workers": -1}, "workers"),
    ],
)
def test_mistake_in_a_fleet_is_reported(values: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        config.parse({"fleet": values}, origin="trackside.toml")
    assert "secret" not in str(raised.value)
