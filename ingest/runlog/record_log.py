"""A log of records as a run log: what W&B's and TensorBoard's files have in common.

Neither begins with what a `run` line needs, so lines and points are kept back until enough records were read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ingest.runlog.binary import BAD_MESSAGE, Damage, WireError, rejected
from ingest.runlog.series import KEYS, Names, Point, ProcessSteps, encode, rejected_names, tokens_of_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.runlog.binary import Record
    from ingest.runlog.translation import Findings


class RecordLog(ABC):
    """A file while it is read, with the lines that were not passed on yet.

    Attributes:
        WAITED_FOR: lines and points that are kept back until the `run` line is written: what is recorded of the run,
            and of its model, comes before.
    """

    WAITED_FOR: ClassVar[int]

    def __init__(self, path: str, facts: Mapping[str, Any]) -> None:
        """Begin a file of this name, with facts that a person stated."""
        self._path = path
        self._facts = facts
        self._names = Names(facts)
        self._steps = ProcessSteps()
        self._pending: list[bytes | Point] = []
        self._begun = False

    def lines(self, records: Iterable[Record | Damage], findings: Findings) -> Iterator[bytes]:
        """The lines of the run log; rows that repeat a step are counted in `findings`.

        Raises:
            InputError: the file has nothing that a run could begin with.
        """
        for record in records:
            self._take(record)
            if self._begun or len(self._pending) > self.WAITED_FOR:
                yield from self._passed_on()
        self._end()
        yield from self._passed_on()
        findings.n_duplicates += self._steps.n_repeated
        if self._steps.first is None and self._names.unknown():
            yield rejected_names(self._names)

    def _take(self, record: Record | Damage) -> None:
        if isinstance(record, Damage):
            self._pending.append(rejected(record))
            return
        try:
            self._read(record.data)
        except (WireError, OverflowError):
            self._pending.append(rejected(Damage(BAD_MESSAGE, record.begin, record.end)))

    def _passed_on(self) -> Iterator[bytes]:
        """The lines that were kept back; the `run` line, which needs their first step, before them."""
        pending, self._pending = self._pending, []
        if not self._begun:
            self._steps.tokens = self._tokens()
            self._steps.look_ahead(each for each in pending if isinstance(each, Point))
        lines = [line for each in pending for line in ([each] if isinstance(each, bytes) else self._steps.of(each))]
        if not self._begun:
            yield encode({"type": "run", "v": 1, **self._run()})
            self._begun = True
        yield from lines

    def _stated(self) -> dict[str, Any]:
        """Facts of the run that a person stated."""
        return {name: value for name, value in self._facts.items() if name not in KEYS}

    def _tokens(self) -> float | None:
        """Tokens of a step, where no name records them."""
        return tokens_of_step(self._facts)

    @abstractmethod
    def _read(self, data: bytes) -> None:
        """Read a record.

        Raises:
            WireError, OverflowError: it is not the message that it should be.
        """

    @abstractmethod
    def _run(self) -> dict[str, Any]:
        """The `run` line: when the run began, its id, and what else is known.

        Raises:
            InputError: nothing begins.
        """

    @abstractmethod
    def _end(self) -> None:
        """The file is at its end."""
