"""The guide `developing/adding-a-log-format.md` is true: its format in a configuration reads its log."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from app.cli.main import main
from app.config import settings
from queries.warehouse import open_reader
from tests.support.command import ROOT
from tests.support.logs.foreign_logs import events, read, steps

if TYPE_CHECKING:
    from pathlib import Path

GUIDE = (ROOT / "app" / "docs" / "developing" / "adding-a-log-format.md").read_text(encoding="utf-8")
CONFIGURATION, LOG = (re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)[0] for kind in ("toml", "text"))


def test_a_format_by_the_guide_reads_the_guides_log() -> None:
    runlog = settings.parse(tomllib.loads(CONFIGURATION), origin="guide").runlog
    parsed = read(LOG, timezone=None, formats=runlog.text_formats())
    assert steps(parsed) == [(1, 28800, 2.0), (2, 28805, 2.0)]
    assert parsed.frames["steps"]["tokens"].to_list() == [4096, 4096]
    assert events(parsed) == [("checkpoint_save", 1, 28802, 28805)]
    assert parsed.rejects["line"].to_list() == [6]


def test_a_format_of_the_configuration_is_used_by_ingest(tmp_path: Path) -> None:
    (tmp_path / "trackside.toml").write_text(CONFIGURATION)
    (tmp_path / "train.log").write_text(LOG)
    options = ["--config", str(tmp_path / "trackside.toml"), "--warehouse", str(tmp_path / "w")]
    assert main(["ingest", "runlog", str(tmp_path / "train.log"), *options]) == 0
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("steps").height == 2
