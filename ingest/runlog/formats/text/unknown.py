"""The message for a text without a step of any format: what was searched, what came near, and a way out.

The way out is an entry for the configuration, made from the line of the log that looks most like a step, and tried on
it before it is shown.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from typing import TYPE_CHECKING, Final

from ingest.errors import UnrecognisedInputError, shorten
from ingest.runlog.formats.text.scan import HELD_OUT, scan_lines
from ingest.runlog.formats.text.unreadable import BAR_OF_STEPS, advice
from ingest.runlog.text_format import FormatError, parse_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.runlog.formats.text.scan import FormatScan, Sample

_STEP: Final = re.compile(r"(?i)(\b[a-z_]*(?:step|iter|iteration|batch|update)s?\b[^\w\n]{0,12})\d+(?![\d%])")
_LOSS: Final = re.compile(r"(?i)([\w/]*loss[\"']?(?:\s+train)?\s*[:=]?\s*)(?:[-+]?\d[\w.+-]*|nan)")
_TIME: Final = re.compile(
    r"(?i)((?:time|elapsed|took|duration|dt)[\"')]*(?:\s*(?:\((?P<before>ms|s|sec)\)))?\s*[:=]?\s*)(?P<value>\d*\.?\d+)"
    r"(?P<gap>\s*)(?P<behind>ms|s|sec|seconds)?\b"
)


def unknown_text(name: str, scans: Sequence[FormatScan], sample: Sample) -> UnrecognisedInputError:
    """The error for a text without steps.

    Args:
        name: of the log.
        scans: what each format has found in it.
        sample: lines of the log; the first is there.
    """
    parts = [
        f"{name}: no known log format: no line in it is a step of training. It begins with\n"
        f"  {shorten(sample.first or '')}",
        "Looked for: run logs as the recorder writes them, MLPerf's :::MLLOG, W&B and TensorBoard (or tables "
        "exported from them: _step,_timestamp,... and Wall time,Step,Value), Google's goodput log, "
        f"Lightning's metrics.csv, trainer_state.json, and what is printed by {', '.join(_titles(scans))}.",
        *_nearest(scans),
        *([advice(sample.unreadable)] if sample.unreadable else []),
        _way_out(sample.candidates),
    ]
    return UnrecognisedInputError("\n".join(parts))


def _titles(scans: Iterable[FormatScan]) -> list[str]:
    return [scan.form.title for scan in scans]


def _nearest(scans: Iterable[FormatScan]) -> list[str]:
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


def _way_out(candidates: Sequence[str]) -> str:
    own = "trackside docs adding-a-log-format"
    if not candidates:
        return (
            "No line looks like a step (a number behind step, iter, iteration, batch or update, and another one). "
            f"If the loop prints its steps otherwise, add its pattern: {own}"
        )
    candidate = candidates[0]
    entry = suggestion(*candidates)
    in_epoch = _IN_EPOCH if entry is not None and _EPOCH_OF_STEPS.search(candidate) else ""
    if entry is None:
        return f"This line looks like a step; add its pattern to the configuration ({own}):\n  {shorten(candidate)}"
    return (
        f"This line looks like a step:\n  {shorten(candidate)}\n"
        f"To read such lines, put this into trackside.toml ({own} has all fields):\n\n{entry}{in_epoch}"
    )


_EPOCH_OF_STEPS: Final = re.compile(r"(?i)\bepoch\W{0,4}\d.*\d\s*/\s*\d|\d\s*/\s*\d.*\bepoch\W{0,4}\d")
_IN_EPOCH: Final = (
    "\n# If the number begins anew with each epoch, add the fields epoch (epochs_before, if the first is 0) and"
    "\n# steps_per_epoch: without them each epoch is a restart."
)
"""What to add to an entry for a line with the number of an epoch and a number out of so many; a comment in TOML."""


def suggestion(line: str, *others: str) -> str | None:
    r"""An entry of the configuration that reads a line as a step; None where none could be made that does.

    The others are lines like it: a time that only grows from each to the next is since the beginning, no duration.

    >>> print(suggestion("iter 10: loss 2.3012, time 100.20ms, mfu 31.20%"))
    [[runlog.format]]
    name = "mine"
    [[runlog.format.line]]
    kind = "step"
    starts = 'iter\s+\d+'
    needs = ["step"]
    fields = { step = 'iter\s+(\d+)', loss = 'loss\s+([-+\w.]+)', duration_ms = 'time\s+([\d.]+)' }
    """
    step, loss = _step(line), _loss(line)
    if step is None:
        return _entry_of_bar(line, loss)
    is_in_parts = _has_other_counter(line, step)
    fields = {"step": _behind(step[1], r"(\d+)")}
    if loss is not None:
        fields["loss"] = _behind(loss[1], r"([-+\w.]+)")
    if not is_in_parts:
        fields |= _time((line, *others))
    return _entry(_behind(step[1], r"\d+"), fields, line, repeats=is_in_parts)


def _entry_of_bar(line: str, loss: re.Match[str] | None) -> str | None:
    """An entry that reads a progress bar which counts steps by its title; None where a line is none."""
    bar = re.search(BAR_OF_STEPS, line)
    if bar is None:
        return None
    fields = {"step": r"\| (\d+)/\d+ \[", "elapsed": r"\[((?:\d+ days?, )?(?:\d+:)?\d+:\d\d)<"}
    if loss is not None:
        fields["loss"] = _behind(loss[1], r"([-+\w.]+)")
    return _entry(_behind(bar[1], r"\d+%\|"), fields, line, repeats=True)


def _entry(starts: str, fields: Mapping[str, str], line: str, *, repeats: bool) -> str | None:
    """An entry with these patterns; None where it does not read the line."""
    table = ", ".join(f"{name} = {_quoted(pattern)}" for name, pattern in fields.items())
    entry = (
        '[[runlog.format]]\nname = "mine"\n[[runlog.format.line]]\nkind = "step"\n'
        f'starts = {_quoted(starts)}\nneeds = ["step"]\nfields = {{ {table} }}'
        + ("\nrepeats = true" if repeats else "")
    )
    return entry if _reads(entry, line) else None


def _step(line: str) -> re.Match[str] | None:
    """The number of a step in a line: of several counters that of all steps, not of iterations, batches or micro-steps.

    >>> [_step(line)[1] for line in ("iter 512 step 32 |", "step 9, global_step: 3", "batch 7 update 2")]
    ['step ', 'global_step: ', 'update ']
    """

    def likelihood(one: re.Match[str]) -> tuple[bool, bool]:
        return _LEAST_LIKELY.search(one[1]) is not None, "global" not in one[1].lower()

    return min(_STEP.finditer(line), key=likelihood, default=None)


def _loss(line: str) -> re.Match[str] | None:
    """A loss in a line: of several that of training.

    >>> [_loss(line)[1] for line in ("val_loss 3.2 train_loss 3.5", "test loss: 3, loss: 4", "step 3 val/loss=2.5")]
    ['train_loss ', 'loss: ', 'val/loss=']
    """

    def is_held_out(found: re.Match[str]) -> bool:
        return re.search(f"{HELD_OUT}$", line[: found.end(1)].rstrip(" :=\"'")) is not None

    return min(_LOSS.finditer(line), key=is_held_out, default=None)


def _time(lines: Sequence[str]) -> dict[str, str]:
    r"""The field of a time in lines that are like each other: a duration, else the time since the beginning.

    >>> _time(["time:100ms dt 2 s", "time:210ms dt 1 s", "time:300ms dt 4 s"]), _time(["took 2.0 sec"])
    ({'duration_s': 'dt\\s+([\\d.]+)'}, {'duration_s': 'took\\s+([\\d.]+)'})
    >>> _time(["time:100ms", "time:210ms", "time:300ms"]), _time(["time (ms): 1", "time (ms): 2", "time (ms): 3"])
    ({'elapsed': 'time:([\\d.]+ms)'}, {})
    """
    columns = list(zip(*(list(_TIME.finditer(line)) for line in lines), strict=False))
    known = [column for column in columns if column[0]["before"] or column[0]["behind"]]
    column = min(known, key=_grows, default=None)
    if column is None:
        return {}
    first, unit = column[0], (column[0]["before"] or column[0]["behind"]).lower()
    if not _grows(column):
        return {"duration_ms" if unit == "ms" else "duration_s": _behind(first[1], r"([\d.]+)")}
    if first["before"] is not None and unit == "ms":
        return {}
    suffix = r"\s*ms" if first["gap"] else "ms"
    return {"elapsed": _behind(first[1], rf"([\d.]+{suffix})" if unit == "ms" else r"([\d.]+)")}


def _grows(times: Sequence[re.Match[str]]) -> bool:
    """Whether a number only grows from a line to the next, over enough of them."""
    values = [float(one["value"]) for one in times]
    return len(values) >= _ENOUGH and all(after > before for before, after in itertools.pairwise(values))


_ENOUGH: Final = 3


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
