"""Answers of Slurm in JSON, from `sacct --json` or slurmrestd: what is common to all of them.

An answer has its rows under one name (`jobs`, `nodes`), the errors that happened on the way, and `meta`, which names
the version of the form. The forms differ between versions: a number may be plain or `{set, infinite, number}`, a state
a word or a list. 0.0.38 was tried on a real Slurm (22.05); the later ones are read by their documented field names.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from ingest.delimited.reader import clean
from ingest.errors import InputError, SourceError, TruncatedInputError, UnrecognisedInputError, shorten
from ingest.files.json_texts import BrokenTextError, json_texts
from ingest.load_warnings import LoadWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ingest.tables import SourceName

SUPPORTED_VERSIONS: Final = ("0.0.38", "0.0.39", "0.0.40", "0.0.41", "0.0.42", "0.0.43", "0.0.44")
"""Supported versions, oldest first."""

VERIFIED: Final = frozenset({"0.0.38"})
"""Versions that were tried on a real Slurm."""

NO_RESULTS: Final = 9003
"""The number of the "error" for no matching row: an empty answer, no failure."""

NOT_ALLOWED: Final = re.compile(r"authenti|permission|access denied|token", re.IGNORECASE)

UNSET: Final = frozenset({0xFFFF_FFFE, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFF})
"""Slurm's marks for "not set" and "infinite", in 32 and 64 bits."""

SHOWN: Final = 3
"""Errors of an answer that a message quotes."""

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_BLANK = re.compile(r"[\s,]*")
_TRUNCATED = "truncated"

Row = TypeVar("Row")


READ: Final[dict[str, SourceName]] = {
    "jobs": "slurm.accounting",
    "nodes": "slurm.nodes",
    "clusters": "slurm.config",
    "reservations": "slurm.reservations",
}
"""Names of the lists that are read, with the source of each."""

INSTEAD: Final = {
    "sinfo": "scontrol show node --json, or its text",
    "statistics": "the text of sdiag",
    "associations": "the text of sacctmgr -P show assoc",
    "qos": "the text of sacctmgr -P show qos",
}
"""Answers of Slurm that are not read in JSON, with the text to load instead."""

_FIRST_LIST = re.compile(
    r'"(jobs|nodes|clusters|sinfo|statistics|reservations|associations|qos|partitions|pings|users|accounts|licenses|'
    r'steps|tres|wckeys|config)"\s*:\s*[\[{]'
)
_OF_CONTROLLER = re.compile(r'"job_state"\s*:|"type"\s*:\s*"openapi\\?/(?:v0|slurmctld)')


class Number(msgspec.Struct, gc=False):
    """A number of 0.0.39 and later, which may not be set, or be infinite."""

    set: bool = True
    infinite: bool = False
    number: int | float | None = None


Whole: TypeAlias = int | float | Number | None
"""A count as the versions write it."""

Words: TypeAlias = str | list[str] | None
"""A state or status: a word up to 0.0.39, a list of them later."""


class SlurmAnswerError(SourceError, InputError):
    """Slurm's JSON holds errors instead of rows. A file with them cannot be used."""


class Envelope(msgspec.Struct):
    """The fields of an answer besides its rows."""

    meta: msgspec.Raw = msgspec.Raw(b"{}")
    errors: msgspec.Raw = msgspec.Raw(b"[]")


class AnswerVersion(NamedTuple):
    """The version of an answer.

    Attributes:
        version: The version by whose rules the answer is read; one of `SUPPORTED_VERSIONS`.
        cluster: The cluster's name, where the answer has it.
        release: Slurm's own version, such as 22.05.8.
        warnings: Caveats about the version.
    """

    version: str
    cluster: str | None
    release: str | None
    warnings: list[LoadWarning]


class AnswerRows(NamedTuple):
    """The rows of an answer, each with its number in the list (from 1), and those that are not as declared.

    `refused` holds (number, reason, JSON); `n_read` is the number of all rows; `as_they_came` returns the JSON of each.
    """

    form: AnswerVersion
    rows: list[tuple[int, Any]]
    refused: list[tuple[int, str, str]]
    n_read: int
    warnings: list[LoadWarning]
    names: list[str]
    as_they_came: Callable[[], list[bytes]]


def is_json(data: bytes) -> bool:
    r"""Whether the bytes look like JSON, not like a table.

    >>> is_json(b"\n{ \"jobs\": []}"), is_json(b"JobID|State\n")
    (True, False)
    """
    return data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def kind_of_json(text: str, *, origin: str) -> SourceName:
    """The source that an answer in JSON belongs to, detected from its beginning.

    >>> kind_of_json('{"nodes": [{"name": "n1"}]}', origin="x")
    'slurm.nodes'

    Raises:
        UnrecognisedInputError: It is no answer of Slurm, or one that is not read.
    """
    match = _FIRST_LIST.search(text)
    name = match[1] if match else None
    if name == "jobs" and _OF_CONTROLLER.search(text):
        return "slurm.jobs"
    if name in READ:
        return READ[name]
    if name is not None:
        other = f"; what is read is {INSTEAD[name]}" if name in INSTEAD else ""
        message = f"{origin}: JSON of Slurm's {name}, which is not read{other}"
    else:
        message = (
            f"{origin}: JSON, but none of Slurm's answers; it begins with\n  {shorten(text[:200])}\n"
            f"In JSON are read: sacct --json, scontrol show node --json and show reservation --json, and the same\n"
            f"from slurmrestd (of jobs: slurmdb's)"
        )
    raise UnrecognisedInputError(message)


_BEYOND_64_BITS: Final = 2**63


def whole(value: Whole) -> int | None:
    """The number, or None where it is not set.

    >>> whole(7), whole(Number(set=False, number=0)), whole(0xFFFFFFFE)
    (7, None, None)
    """
    if isinstance(value, Number):
        value = value.number if value.set and not value.infinite else None
    return None if value is None or value in UNSET or abs(value) >= _BEYOND_64_BITS else int(value)


def words(value: Words) -> list[str]:
    """The words of a state or status.

    >>> words("idle"), words(["IDLE", "DRAIN"]), words(None)
    (['idle'], ['IDLE', 'DRAIN'], [])
    """
    return value if isinstance(value, list) else [value] if value else []


def read_rows(data: bytes, name: str, row: type[Row], *, origin: str, accept_truncated: bool = False) -> AnswerRows:
    """The rows under `name`, each as a `row`.

    One pass where all rows are as declared; else row by row, so that only bad rows are lost.

    Raises:
        SlurmAnswerError: The answer holds errors.
        TruncatedInputError: It is cut off (with `accept_truncated` the whole rows are read, the cut one is refused).
        InputError: It is no JSON, or has no such list.
    """
    data, warnings = clean(data, origin)
    try:
        try:
            answer: Any = msgspec.json.decode(data, type=_answer_of(name, row))  # type: ignore[arg-type]  # a class is hashable
        except msgspec.ValidationError:  # the text may be damaged behind the row that is not as declared
            return _row_by_row(data, name, row, origin, warnings)
    except RecursionError:
        message = f"{origin}: not the JSON of Slurm (lists or objects within one another without end)"
        raise InputError(message) from None
    except msgspec.DecodeError as error:
        if _TRUNCATED not in str(error):
            message = f"{origin}: not the JSON of Slurm ({error})"
            raise InputError(message) from None
        if not accept_truncated:
            message = (
                f"{origin}: the JSON ends in the middle; write it again, or load what is whole of it with "
                f"--accept-truncated"
            )
            raise TruncatedInputError(message) from None
        return _what_is_whole(data, name, row, origin, warnings)
    form = _form(answer, origin)
    match = getattr(answer, name)
    rows = list(enumerate(match, 1))
    return AnswerRows(form, rows, [], len(match), warnings, _names(data, name), lambda: raw_rows(data, name))


def raw_rows(data: bytes, name: str) -> list[bytes]:
    """The rows of an answer as they came.

    Raises:
        msgspec.DecodeError: There is no such list, or no JSON.
    """
    answer = msgspec.json.decode(data, type=_answer_of(name, msgspec.Raw))
    return [bytes(part) for part in getattr(answer, name)]


@cache
def _answer_of(name: str, row: Hashable) -> type[Any]:
    """The type of an answer whose rows are under that name."""
    rows = list[row]  # type: ignore[valid-type]  # a type made here
    return msgspec.defstruct("Answer", [(name, rows)], bases=(Envelope,), kw_only=True)


def _names(data: bytes, name: str) -> list[str]:
    """The field names of the first row, which reveal a change of the source."""
    beginning = re.search(rb'"%s"\s*:\s*\[' % name.encode(), data)
    if beginning is None:
        return []
    text = data[beginning.end() : beginning.end() + (1 << 20)].decode(errors="ignore").lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # no JSON, numbers of thousands of digits, depth without end
        return []
    return sorted(first) if isinstance(first, dict) else []


def _row_by_row(data: bytes, name: str, row: type[Row], origin: str, warnings: list[LoadWarning]) -> AnswerRows:
    try:
        answer: Any = msgspec.json.decode(data, type=_answer_of(name, msgspec.Raw))
    except msgspec.ValidationError:
        _form(msgspec.json.decode(data, type=Envelope), origin)  # its errors explain more than a missing list
        beginning = shorten(data[:200].decode(errors="replace"))
        message = f"{origin}: JSON without a list of {name}; it begins with\n  {beginning}"
        raise InputError(message) from None
    form = _form(answer, origin)
    parts = [bytes(part) for part in getattr(answer, name)]
    return _each(parts, row, form, warnings, _names(data, name))


def _each(
    parts: list[bytes], row: type[Row], form: AnswerVersion, warnings: list[LoadWarning], names: list[str]
) -> AnswerRows:
    decoder = msgspec.json.Decoder(row)
    good: list[tuple[int, Row]] = []
    bad: list[tuple[int, str, str]] = []
    for number, part in enumerate(parts, 1):
        try:
            good.append((number, decoder.decode(part)))
        except msgspec.DecodeError as error:
            bad.append((number, _plain(error), part.decode()))
    return AnswerRows(form, good, bad, len(parts), warnings, names, lambda: parts)


def _plain(error: msgspec.DecodeError) -> str:
    r"""The fault of a row, in few words: place and fault.

    >>> _plain(msgspec.ValidationError("Expected `int`, got `str` - at `$.job_id`"))
    'job_id: expected int, got str'
    """
    what, _, where = str(error).partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    plain = what.replace("`", "")
    plain = plain[:1].lower() + plain[1:]
    return f"{path}: {plain}" if path else plain


def _what_is_whole(data: bytes, name: str, row: type[Row], origin: str, warnings: list[LoadWarning]) -> AnswerRows:
    """The rows before the place where the JSON is cut off."""
    text = data.decode()
    beginning = re.search(rf'"{name}"\s*:\s*\[', text)
    if beginning is None:
        message = f"{origin}: the JSON ends before its {name} begin; write it again"
        raise TruncatedInputError(message)
    match = _VERSION.search(text[: beginning.start()])
    version, about = judged(match[0] if match else "")
    form = AnswerVersion(version, None, None, about)
    listed, parts, rest = text[beginning.end() :], [], ""
    try:
        for _, part in json_texts(listed, between=_BLANK):
            parts.append(part.encode())
    except BrokenTextError as error:
        rest = listed[error.at :]
    rows = _each(parts, row, form, warnings, _names(data, name))
    if not rest or rest.startswith("]"):
        return rows
    cut = (len(parts) + 1, "the JSON ends in the middle of it", rest)
    return rows._replace(refused=[*rows.refused, cut], n_read=rows.n_read + 1)


# --- the fields around the rows ------------------------------------------------------------------------


def _form(answer: Envelope, origin: str) -> AnswerVersion:
    """The version of an answer that holds no errors."""
    problems = [problem for problem in _problems(answer.errors) if problem.get("error_number") != NO_RESULTS]
    if problems:
        raise SlurmAnswerError(_complaint(problems, origin))
    meta = _decoded(answer.meta)
    meta = meta if isinstance(meta, dict) else {}
    plugin = meta.get("plugin") or meta.get("plugins")  # the latter: the commands of Slurm 23.02
    version_text = (
        " ".join(str(plugin.get(key) or "") for key in ("data_parser", "type")) if isinstance(plugin, dict) else ""
    )
    slurm = meta.get("slurm") or meta.get("Slurm")
    slurm = slurm if isinstance(slurm, dict) else {}
    cluster, release = (str(slurm[key]) if slurm.get(key) else None for key in ("cluster", "release"))
    version, warnings = judged(version_text)
    return AnswerVersion(version, cluster, release, warnings)


def judged(version_text: str) -> tuple[str, list[LoadWarning]]:
    """The supported version to read a version as, with warnings where it differs.

    >>> judged("data_parser/v0.0.38")
    ('0.0.38', [])
    >>> judged("openapi/v0.0.99")[0]
    '0.0.44'
    """
    match = _VERSION.search(version_text)
    newest, oldest = SUPPORTED_VERSIONS[-1], SUPPORTED_VERSIONS[0]
    if match is None:
        return newest, [_unverified(f"the JSON names no version; it was read as the newest supported one, v{newest}")]
    version = match[0][1:]
    if version in VERIFIED:
        return version, []
    if version in SUPPORTED_VERSIONS:
        return version, [
            _unverified(f"JSON v{version} was read by its documented field names; it was not tried on a real Slurm")
        ]
    older = tuple(map(int, match.groups())) < tuple(map(int, oldest.split(".")))
    nearest, which = (oldest, "oldest") if older else (newest, "newest")
    return nearest, [
        _unverified(f"JSON v{version} is not supported; it was read as the {which} supported version, v{nearest}")
    ]


def _unverified(message: str) -> LoadWarning:
    return LoadWarning("json_version_unverified", None, message)


def _decoded(raw: msgspec.Raw) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.json.decode(raw)


def _problems(raw: msgspec.Raw) -> list[dict[str, Any]]:
    match = _decoded(raw)
    return [one if isinstance(one, dict) else {"error": str(one)} for one in match] if isinstance(match, list) else []


def reported_problems(data: bytes) -> list[tuple[int | None, str]]:
    """The errors that an answer in JSON reports, with Slurm's number of each; empty where it is no JSON.

    >>> reported_problems(b'{"errors": [{"error": "Unknown Query field", "error_number": 9000}]}')
    [(9000, 'Unknown Query field (9000)')]
    """
    try:
        answer = msgspec.json.decode(data, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [(problem.get("error_number"), _problem_text(problem)) for problem in _problems(answer.errors)[:SHOWN]]


def _problem_text(problem: dict[str, Any]) -> str:
    texts = [str(problem[key]) for key in ("error", "description") if problem.get(key)]
    number = problem.get("error_number")
    return shorten(": ".join(dict.fromkeys(texts)) or "an error without words") + (f" ({number})" if number else "")


def _complaint(problems: list[dict[str, Any]], origin: str) -> str:
    text = "; ".join(_problem_text(problem) for problem in problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    hint = (
        "Access was denied: is the token still valid (scontrol token), and of that user?"
        if NOT_ALLOWED.search(text)
        else "Is the daemon behind it up (scontrol ping, sacctmgr show cluster)? Nothing of the answer was used."
    )
    return f"{origin}: Slurm answered with an error: {text}{more}\n{hint}"
