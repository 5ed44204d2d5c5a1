"""What a person is told about a text of which no format has a step: what was searched, what came near, and a way out.

The way out is an entry for the configuration, made from the line of the log that looks most like a step, and tried on
it before it is shown.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Final

from ingest.errors import UnrecognisedInputError, shorten
from ingest.runlog.formats.text.scan import scan_lines
from ingest.runlog.text_format import FormatError, parse_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.runlog.formats.text.scan import Scan

_STEP: Final = re.compile(r"(?i)(\b[a-z_]*(?:step|iter|iteration|batch|update)s?\b[^\w\n]{0,12})\d+")
_LOSS: Final = re.compile(r"(?i)([\w/]*loss[\"']?(?:\s+train)?\s*[:=]?\s*)(?:[-+]?\d[\w.+-]*|nan)")
_TIME: Final = re.compile(
    r"(?i)((?:time|elapsed|took|duration|dt)[\"')]*(?:\s*(?:\((?P<before>ms|s|sec)\)))?\s*[:=]?\s*)[\d.]+"
    r"(?P<gap>\s*)(?P<behind>ms|s|sec|seconds)?\b"
)


def unknown_text(name: str, scans: Sequence[Scan], shown: str, candidate: str | None) -> UnrecognisedInputError:
    """The error for a text without steps.

    Args:
        name: of the log.
        scans: what each format has found in it.
        shown: the first line that is not blank.
        candidate: a line that looks like a step; None: there is none.
    """
    parts = [
        f"{name}: no log that is known: no line in it is a step of training. It begins with\n  {shorten(shown)}",
        "Looked for: run logs as the recorder writes them, MLPerf's :::MLLOG, W&B and TensorBoard (or tables "
        "exported from them: _step,_timestamp,... and Wall time,Step,Value), Google's goodput log, "
        f"Lightning's metrics.csv, trainer_state.json, and what is printed by {', '.join(_titles(scans))}.",
        *_nearest(scans),
        _way_out(candidate),
    ]
    return UnrecognisedInputError("\n".join(parts))


def _titles(scans: Iterable[Scan]) -> list[str]:
    return [scan.form.title for scan in scans]


def _nearest(scans: Iterable[Scan]) -> list[str]:
    """The formats of which the text has other lines, or damaged ones; nearest first."""
    near = sorted(((scan.counts(), scan) for scan in scans), key=lambda one: -sum(one[0].values()))
    texts = [
        f"{scan.form.title}: {', '.join(f'{count:,} {kind}' for kind, count in counts.items())}"
        for counts, scan in near[:_NAMED]
        if counts
    ]
    if not texts:
        return []
    refused = next((scan.refused[0] for _, scan in near if scan.refused), None)
    damaged = "" if refused is None else f"\n  line {refused.line}: {refused.reason}"
    return [
        "Nearest (lines by kind, none a whole step; did it end before its first one?): " + "; ".join(texts) + damaged
    ]


_NAMED: Final = 3


def _way_out(candidate: str | None) -> str:
    own = "trackside docs adding-a-log-format"
    if candidate is None:
        return (
            "No line looks like a step (a number behind step, iter, iteration, batch or update, and another one). "
            f"If the loop prints its steps otherwise, add its pattern: {own}"
        )
    entry = suggestion(candidate)
    if entry is None:
        return f"This line looks like a step; add its pattern to the configuration ({own}):\n  {shorten(candidate)}"
    return (
        f"This line looks like a step:\n  {shorten(candidate)}\n"
        f"To read such lines, put this into trackside.toml ({own} has all fields):\n\n{entry}"
    )


def suggestion(line: str) -> str | None:
    r"""An entry of the configuration that reads a line as a step; None where none could be made that does.

    >>> print(suggestion("iter 10: loss 2.3012, time 100.20ms, mfu 31.20%"))
    [[runlog.format]]
    name = "mine"
    [[runlog.format.line]]
    kind = "step"
    starts = 'iter\s+\d+'
    needs = ["step"]
    fields = { step = 'iter\s+(\d+)', loss = 'loss\s+([-+\w.]+)', duration_ms = 'time\s+([\d.]+)' }
    """
    step, loss, time = _step(line), _LOSS.search(line), _TIME.search(line)
    if step is None:
        return None
    is_in_parts = _has_other_counter(line, step)
    fields = {"step": _behind(step[1], r"(\d+)")}
    if loss is not None:
        fields["loss"] = _behind(loss[1], r"([-+\w.]+)")
    unit = None if time is None else time["before"] or time["behind"]
    if time is not None and unit is not None and not is_in_parts:
        fields["duration_ms" if unit.lower() == "ms" else "duration_s"] = _behind(time[1], r"([\d.]+)")
    table = ", ".join(f"{name} = {_quoted(pattern)}" for name, pattern in fields.items())
    starts = _quoted(_behind(step[1], r"\d+"))
    entry = (
        '[[runlog.format]]\nname = "mine"\n[[runlog.format.line]]\nkind = "step"\n'
        f'starts = {starts}\nneeds = ["step"]\nfields = {{ {table} }}' + ("\nrepeats = true" if is_in_parts else "")
    )
    return entry if _reads(entry, line) else None


def _step(line: str) -> re.Match[str] | None:
    """The number of a step in a line: of several counters that of steps, not of iterations, batches or micro-steps.

    >>> [_step(line)[1] for line in ("iter 512 step 32 |", "micro_step 9, global_step: 3", "batch 7 update 2")]
    ['step ', 'global_step: ', 'update ']
    """
    return min(_STEP.finditer(line), key=lambda one: _LEAST_LIKELY.search(one[1]) is not None, default=None)


def _has_other_counter(line: str, step: re.Match[str]) -> bool:
    """Whether a line counts parts of steps, too: it is one of several of a step, and its time may be of the part."""
    is_step = _LEAST_LIKELY.search(step[1]) is None
    return is_step and any(_PARTS.search(one[1]) for one in _STEP.finditer(line) if one.start() != step.start())


_LEAST_LIKELY: Final = re.compile(r"(?i)iter|batch|micro")
_PARTS: Final = re.compile(r"(?i)iter|micro")


def _behind(prefix: str, value: str) -> str:
    """A pattern of a value behind a text, in which one blank is as good as several."""
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", prefix)) + value


def _quoted(pattern: str) -> str:
    """A pattern as TOML has it."""
    if "'" not in pattern:
        return f"'{pattern}'"
    escaped = pattern.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _reads(entry: str, line: str) -> bool:
    """Whether a format's entry has a step in a line."""
    try:
        form = parse_format(tomllib.loads(entry)["runlog"]["format"][0], origin="this entry")
    except (tomllib.TOMLDecodeError, FormatError):
        return False
    return scan_lines(form, line + "\n").has_steps
