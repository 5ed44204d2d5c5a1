r"""A text format: which lines of a log are steps, checkpoints and starts, and what they record. Data in `*.toml`.

    name = "mytrainer"
    title = "My trainer"

    [[line]]
    kind = "step"
    starts = 'step \d+ \|'
    ends = '\|$'
    fields = { step = 'step (\d+)', loss = 'loss ([^ ]+)', duration_ms = 'took ([\d.]+) ms' }

    [[example]]
    text = "[2026-10-01 08:00:02] step 7 | loss 2.5 | took 1900 ms |"
    gives = { step = 7, loss = 2.5, duration_s = 1.9 }

People add their own in the configuration (`[[runlog.format]]`) with the same keys. All patterns are regular expressions
in Rust's syntax. Kinds of lines:

- `step`: a step, or several since the step line before it, is finished. `mean = true`: its duration is the mean over
  these. `repeats = true`: a progress bar, which prints the same step again. `behind_bar = true`: it has the number of
  the bar before it, not of the one behind it, and a line of another kind before the next bar is about the same step.
- `start`: a process starts. `train`: the loop begins, with `first_step` if it records one.
- `begin`, `end`: an `event` begins or ends (`checkpoint_save`, `checkpoint_load`, `eval`, `init`, ...), with its
  `step`; an `end` with `seconds` needs no `begin`. A `checkpoint_save` that ends is safe (`durable`), unless
  `durable = false`; a second, later end marks when it is. With `follows = true` an end without a begin began where
  the step or event before it ended.
- `facts`: facts about the run, by the names of a `run` line.
- `values`: values of the step whose line came before (of the same writer), on a line of their own.
- `micro_batch`: a part of a step that goes on. Where lines have the field `micro_batch`, its number, their duration is
  that of one, and a step's follows from those of all its own.
- `unread`: a line that cannot be used although it records training; it is refused for the reason in `why`.
- `time`: a line that only has a time, for step lines without one.
- `bar`: a progress bar: `step`, `total` and `elapsed` ([days,] h:mm:ss, seconds, or 1500ms, since it began), for step
  lines without them.

A line is of a kind if `starts` matches in it. It is damaged if `ends` does not, or a field that its kind needs is not
in it. The first group of a field's pattern is its value; text of facts is stripped, commas in numbers are left out,
and 1.2K, 3M and so on are thousands, millions and so on where the pattern names these letters: ([\d.]+[KMGTPE]?).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import polars as pl
from polars.exceptions import PolarsError

from ingest.errors import shorten
from ingest.runlog.facts import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Kind = Literal["step", "start", "train", "begin", "end", "facts", "time", "bar", "values", "micro_batch", "unread"]

NUMBERS: Final = (
    "step",
    "micro_batch",
    "duration_s",
    "duration_ms",
    "tokens",
    "total_tokens",
    "total_hours",
    "samples",
    "samples_per_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "loss",
    "total",
    "seconds",
    "first_step",
    "tflops_per_gpu",
    "mfu_percent",
)
"""Fields that are numbers. `tokens` and `samples` are of one step, over all GPUs, `total_tokens` and `total_hours` of
all steps so far; `seconds` is an event's length; `tflops_per_gpu` and `mfu_percent` are the framework's own figures."""

OF_EPOCHS: Final = ("epoch", "epochs_before")
"""Number of the epoch, and of the epochs before it: a line has one of them, and `steps_per_epoch`."""

FIELDS: Final = (*NUMBERS, "steps_before", *OF_EPOCHS, "steps_per_epoch", "elapsed")
"""Fields of all kinds but `facts`; `steps_before` are the steps before this one, for a line without its `step`. Where a
line has `steps_per_epoch`, its `step` (or `steps_before`) is one of its epoch."""

NEEDED: Final[Mapping[Kind, tuple[str, ...]]] = {"bar": ("step", "total", "elapsed"), "train": ()}
"""Fields without which a line of a kind is damaged; a `step` needs the fields of `needs`."""

DURATIONS: Final = ("duration_s", "duration_ms")
"""Fields of which a line that needs a `duration` has one."""

STANDING_FOR: Final[Mapping[str, tuple[str, ...]]] = {"duration": DURATIONS, "step": ("step", "steps_before")}
"""Fields that a line may have for one that it needs."""

_LONGEST_PATTERN: Final = 2_000

_BEFORE: Final = (
    r"^(?:(?:\s*(?:\[[^\]\s]*\](?:<std[a-z]{3}>)?:?"  # [rank0]: [1,0]<stdout>: [pod/NAME/CONTAINER]
    r"|\([\w.-]+ pid=\d+[^)]*\)"  # Ray
    r"|[\w.-]*\d[\w.-]*(?::\s| +\| )"  # srun -l, pdsh, compose
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*(?: UTC)?\]?(?:\s+std(?:out|err) [FP])?"  # Docker, containerd, ts
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\S+ [\w.-]+\[\d+\]:\s))+\s*)?"  # syslog, journald
)
"""What launchers, containers and collectors write before lines; titles of progress bars have no digit (`Map: 50%|`)."""


class FormatError(ValueError):
    """An invalid entry of a text format; the message names it, and what to write."""


@dataclass(frozen=True)
class LineKind:
    """One kind of lines of a format; the keys are described above.

    Attributes:
        needs: fields without which the line is damaged: those of its kind, and of a step those that the entry lists;
            `duration` is either of its units.
    """

    kind: Kind
    starts: str
    ends: str = ""
    event: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    mean: bool = False
    repeats: bool = False
    durable: bool = True
    follows: bool = False
    behind_bar: bool = False
    why: str = ""

    @property
    def pattern(self) -> str:
        """What such a line matches; at its beginning, a launcher's prefix may stand before it."""
        return _BEFORE + self.starts[1:] if self.starts.startswith("^") else self.starts


@dataclass(frozen=True)
class Example:
    """A line of a log, and its result: the fields of the step, event or facts."""

    text: str
    gives: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextFormat:
    """A text format.

    Attributes:
        name: in messages.
        title: a few words for people.
        lines: its kinds of lines; the first that a line is of counts.
        examples: lines with what they give, which a test reads.
        resumes_aloud: a process that goes on from a checkpoint logs it; without such a line it begins at step 1.
        words: texts of which every line that it reads has one; lines without any are passed over quickly.
        us_dates: its dates are written 05/31/2026, the month first.
        position: those of a smaller one are tried first: a log of Megatron-DeepSpeed has steps of both.
        mistake: what is wrong with it; its logs are recognised, and refused with this. Empty: no known mistake.
    """

    name: str
    title: str
    lines: tuple[LineKind, ...]
    examples: tuple[Example, ...] = ()
    resumes_aloud: bool = False
    us_dates: bool = False
    position: int = 0
    words: tuple[str, ...] = ()
    mistake: str = ""

    @property
    def starts(self) -> str:
        """A pattern of all lines that it reads."""
        return "|".join(f"(?:{line.pattern})" for line in self.lines)

    @property
    def starting(self) -> list[int]:
        """Numbers of its lines with which a process starts or continues from a checkpoint."""
        return [
            number
            for number, line in enumerate(self.lines)
            if line.kind in {"start", "train"} or line.event == "checkpoint_load"
        ]

    def numbers_of(self, *kinds: str) -> list[int]:
        """Numbers of its lines of these kinds, as in column `kind` of records."""
        return [number for number, line in enumerate(self.lines) if line.kind in kinds]


@cache
def builtin() -> tuple[TextFormat, ...]:
    """The formats that come with Trackside, in the order in which they are tried."""
    folder = resources.files("ingest") / "runlog" / "formats" / "text"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    forms = [parse_format(tomllib.loads(file.read_text(encoding="utf-8")), origin=file.name) for file in files]
    return tuple(sorted(forms, key=lambda form: (form.position, form.name)))


def with_builtin(own: Iterable[TextFormat]) -> tuple[TextFormat, ...]:
    """These formats, which are tried first, and those that are built in, but for the ones of the same name."""
    mine = tuple(own)
    replaced = {one.name for one in mine}
    return (*mine, *(one for one in builtin() if one.name not in replaced))


def parse_format(entry: object, *, origin: str) -> TextFormat:
    """An entry of a text format.

    Raises:
        FormatError: it is invalid; the message has where it is, what is wrong and what to write.
    """
    values = _checked(entry, _FORMAT_KEYS, origin)
    name = values.get("name")
    where = f"{origin} ({shorten(name, 80)})" if isinstance(name, str) else origin
    _present(values, ("name", "line"), _FORMAT_KEYS, where)
    lines = tuple(_line(line, f"{where}, line {n}") for n, line in enumerate(values["line"], 1))
    if not any(line.kind == "step" for line in lines):
        raise FormatError(f'{where}: no line is of kind "step", so it has no steps; write [[line]] with kind = "step"')
    drawn = any(line.kind == "bar" for line in lines)
    for n, line in enumerate(lines, 1):
        if line.kind == "step" and not drawn and not {"step", "steps_before"} & dict(line.fields).keys():
            raise FormatError(f"{where}, line {n}: a step has no number; add its pattern: fields = {{ step = '...' }}")
    examples = tuple(_example(one, f"{where}, example {n}") for n, one in enumerate(values.get("example", ()), 1))
    rest = {
        name: values[name] for name in ("title", "resumes_aloud", "us_dates", "position", "words") if name in values
    }
    rest["words"] = tuple(rest.get("words", ()))
    return TextFormat(**{"title": values["name"], **rest}, name=values["name"], lines=lines, examples=examples)


def _line(entry: object, where: str) -> LineKind:
    values = _checked(entry, _LINE_KEYS, where)
    _present(values, ("kind", "starts"), _LINE_KEYS, where)
    kind, fields = values["kind"], dict(values.pop("fields", {}))
    allowed = NAMES if kind == "facts" else FIELDS
    for name in fields:
        if name not in allowed:
            raise FormatError(f"{where}: {shorten(str(name), 40)}: no such field; the fields are {', '.join(allowed)}")
    if kind in {"begin", "end"} and not values.get("event"):
        raise FormatError(f'{where}: event is missing; write what begins or ends: event = "checkpoint_save"')
    if kind == "unread" and not values.get("why"):
        raise FormatError(f"{where}: why is missing; write why such a line is not read, and what to do")
    if ("steps_per_epoch" in fields) != (len(fields.keys() & set(OF_EPOCHS)) == 1):
        raise FormatError(
            f"{where}: a step of an epoch needs steps_per_epoch and one of epoch (counted from 1) and epochs_before"
        )
    needs = values.pop("needs", NEEDED.get(kind, ()))
    for name in needs:
        if not fields.keys() & set(STANDING_FOR.get(name, (name,))):
            raise FormatError(f"{where}: needs the field {name}, which is not in fields; add its pattern")
    return LineKind(fields=tuple(fields.items()), needs=tuple(needs), **values)


def _example(entry: object, where: str) -> Example:
    values = _checked(entry, _EXAMPLE_KEYS, where)
    _present(values, ("text",), _EXAMPLE_KEYS, where)
    return Example(values["text"], values.get("gives", {}))


_Keys = dict[str, tuple["Callable[[object], bool]", str]]


def _checked(entry: object, keys: _Keys, where: str) -> dict[str, Any]:
    """A table whose keys are all known and right."""
    if not isinstance(entry, dict):
        raise FormatError(f"{where}: not a table; its keys are {', '.join(keys)}")
    for name, value in entry.items():
        if name not in keys:
            raise FormatError(f"{where}: {shorten(str(name), 40)}: no such key; the keys are {', '.join(keys)}")
        check, expected = keys[name]
        if not check(value):
            raise FormatError(f"{where}: {name} is {shorten(repr(value), 80)}; {expected}")
        if name in {"starts", "ends", "fields"}:
            _patterns(name, value, where)
    return dict(entry)


def _present(values: Mapping[str, Any], names: Iterable[str], keys: _Keys, where: str) -> None:
    for name in names:
        if name not in values:
            raise FormatError(f"{where}: {name} is missing; {keys[name][1]}")


def _patterns(name: str, value: Any, where: str) -> None:  # noqa: ANN401 - a text or a table of texts
    """Check the patterns of a key; those of fields have a group."""
    for key, pattern in value.items() if isinstance(value, dict) else [(name, value)]:
        try:
            groups = pl.Series([""]).str.extract_groups(pattern).struct.fields
        except PolarsError as error:
            why = str(error).partition("\n\nThis error")[0].rpartition("error: ")[2].strip()
            message = (
                f"{where}: {key} is {shorten(pattern, 80)!r}, which is no regular expression (in Rust's syntax): {why}"
            )
            raise FormatError(message) from None
        if isinstance(value, dict) and (groups == [""] or not groups):
            raise FormatError(
                f"{where}: {key} is {shorten(pattern, 80)!r}, which has no group; put ( ) around the value"
            )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_PATTERN and "\0" not in value


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_FORMAT_KEYS: Final[_Keys] = {
    "name": (_is_text, "write a short name"),
    "title": (_is_text, "write a few words"),
    "line": (_is_tables, "write [[line]] tables (in the configuration: [[runlog.format.line]])"),
    "example": (_is_tables, "write [[example]] tables"),
    "resumes_aloud": (_is_flag, "write true or false"),
    "us_dates": (_is_flag, "write true or false"),
    "words": (_is_texts, 'write a list of texts: ["iteration"]'),
    "position": (lambda value: type(value) is int, "write a whole number"),
}

_LINE_KEYS: Final[_Keys] = {
    "kind": (lambda value: value in get_args(Kind), f"write one of {', '.join(get_args(Kind))}"),
    "starts": (_is_text, "write a regular expression that such a line matches"),
    "ends": (_is_text, "write a regular expression that such a line matches if it is whole"),
    "event": (_is_text, 'write the kind of event: "checkpoint_save"'),
    "fields": (_is_table_of_texts, "write { FIELD = 'regular expression with a (group)' }"),
    "needs": (_is_texts, 'write a list of fields: ["step"]'),
    "mean": (_is_flag, "write true or false"),
    "repeats": (_is_flag, "write true or false"),
    "durable": (_is_flag, "write true or false"),
    "follows": (_is_flag, "write true or false"),
    "behind_bar": (_is_flag, "write true or false"),
    "why": (_is_text, "write why such a line is not read, and what to do"),
}

_EXAMPLE_KEYS: Final[_Keys] = {
    "text": (_is_text, "write a line of a log"),
    "gives": (lambda value: isinstance(value, dict), "write { FIELD = VALUE }"),
}
