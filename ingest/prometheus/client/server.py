"""A client of Prometheus' HTTP API with limits and retries: for Prometheus, VictoriaMetrics, Thanos, Mimir.

`ingest.prometheus.client.http` sends one request. This module chooses the requests: raw readings by the quickest
transport that the server has (remote read with streamed chunks, VictoriaMetrics' export, queries in JSON), in smaller
segments where a query is too large (shorter times first, then fewer metrics), and several queries in JSON at the same
time, within a limit. Memory is bounded: of a stream a few batches, of an answer in JSON `LARGEST_ANSWER` bytes,
and of those answers twice as many as requests may run at the same time.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from datetime import timedelta
from functools import partial
from itertools import groupby
from threading import Semaphore
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ingest.errors import shorten
from ingest.files.prefetch import started
from ingest.prometheus.client import remote_read as wire
from ingest.prometheus.client import victoria as export
from ingest.prometheus.client.auth import Login
from ingest.prometheus.client.http import LARGEST_STREAM, ONLY_WHOLE_ANSWERS, HttpClient
from ingest.prometheus.client.json_samples import samples_of
from ingest.prometheus.client.order import merged, tidied
from ingest.prometheus.client.responses import (
    AGAIN,
    LATER,
    TOO_MUCH,
    AnsweredError,
    LimitExceededError,
    NotStreamedError,
    TemporaryError,
    names_of,
    not_streamed,
    number_of,
    series_of,
    shown,
)
from ingest.prometheus.client.split import (
    MILLISECOND,
    QuerySegment,
    by_name,
    epoch_ms,
    halves,
    halves_by_name,
    seconds,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from ingest.errors import ServerDownError
    from ingest.load_warnings import LoadWarning
    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.responses import Series
    from ingest.store.request import Transport

Answer = TypeVar("Answer")

BOTH_ENDS: Final = "count_over_time(vector(0)[1s:1s])"
"""At a whole second: 2 where a window contains both of its ends, 1 where it leaves out the left one."""


class PrometheusServer:
    """A server that is queried with a time limit, with retries, and in smaller segments where necessary."""

    def __init__(
        self,
        url: str,
        *,
        login: Login | None = None,
        timeout_s: float = 60.0,
        retries: int = 3,
        remote_read: bool = True,
        concurrency: int = 2,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = HttpClient(url, login or Login(), timeout_s=timeout_s, retries=retries, sleep=sleep)
        self.url = self._client.url
        self._concurrency = concurrency
        self._turns = Semaphore(concurrency)
        self._left_open: bool | None = None
        self._streams: bool | None = None if remote_read else False
        self._exports: bool | None = None if remote_read else False
        self._known_labels: dict[bytes, tuple[str, str]] = {}
        self._transport: Transport = "json"

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def digest(self) -> str:
        """SHA-256 of all answers since the last call."""
        return self._client.digest()

    def warnings(self) -> list[LoadWarning]:
        """Warnings of the server in complete answers, since the last call."""
        return self._client.warnings()

    def transport(self) -> Transport:
        """Transport of the raw readings since the last call; `json` where none came as a stream."""
        used, self._transport = self._transport, "json"
        return used

    def names(self, matcher: str = "", *, since: datetime, until: datetime) -> list[str]:
        """Names of the metrics that the server has in that time (roughly), those of a series matcher if one is given.

        Raises:
            ServerDownError: The server gives no response.
        """
        window = {"start": since.timestamp(), "end": until.timestamp()} | ONLY_WHOLE_ANSWERS
        library = self._client.library

        def fetch(some: str) -> list[str]:
            params = window | ({"match[]": some} if some else {})
            return names_of(library.get_label_values("__name__", params=params))

        names: set[str] = set()
        matchers = [matcher]
        for some in matchers:
            try:
                names.update(self._client.request(partial(fetch, some), first=True))
            except LimitExceededError as error:
                smaller = halves_by_name(some)
                if not smaller:
                    raise self._refusal(error) from None
                matchers += smaller
        return sorted(names)

    def points(self, query: str, *, first: datetime, last: datetime, step: timedelta) -> Samples:
        """The values of a query at `first`, every `step` after it, and `last`; a series may come several times.

        Raises:
            ServerDownError: The server gives no response, not even for one point.
        """
        (points,) = self.points_of([query], first=first, last=last, step=step)
        return points

    def points_of(
        self, queries: Sequence[str], *, first: datetime, last: datetime, step: timedelta
    ) -> Iterator[Samples]:
        """`points` of each query, in their order; several run at the same time.

        Raises:
            ServerDownError: The server gives no response, not even for one point.
        """
        step_s = f"{step.total_seconds():g}"

        def fetch(segment: QuerySegment) -> Samples:
            params = {
                "query": segment.what,
                "start": seconds(segment.low),
                "end": seconds(segment.high),
                "step": step_s,
            }
            return samples_of(self._client.body("/api/v1/query_range", params | self._limits))

        segments = [QuerySegment(query, first, last, number) for number, query in enumerate(queries)]
        answers_of_segments = self._segments(fetch, segments, step, apart=step, at_once=self._concurrency)
        for _, answers in groupby(answers_of_segments, key=lambda one: one[0].question):
            yield merged([samples for _, samples in answers])

    @property
    def _limits(self) -> dict[str, str]:
        return self._client.limits

    def window(self, width: timedelta, *, at: datetime) -> str:
        """The range for a selector whose window is `width` long, without its beginning and with its end.

        Prometheus until 2 and its derivatives count a reading at the left end as well, and so need a range that is a
        millisecond shorter; Prometheus since 3 and VictoriaMetrics do not. The server's kind is probed once, at `at` (a
        whole second). A server that answers neither 1 nor 2 is taken for the older kind; if it were the newer one,
        readings a millisecond after the left end would be missed.

        Raises:
            ServerDownError: The server gives no response.
        """
        if self._left_open is None:
            self._left_open = self._leaves_out_left_end(at)
        return f"[{width // MILLISECOND - (not self._left_open)}ms]"

    def _leaves_out_left_end(self, at: datetime) -> bool:
        def fetch() -> bool:
            try:
                result = self._now(BOTH_ENDS, at)
            except AnsweredError as error:
                if error.status in AGAIN:
                    raise
                return False  # if it does not answer at all, the next request reports the cause
            return [one["value"][1] for one in result] == ["1"]

        try:
            return self._client.request(fetch)
        except LimitExceededError:
            return False

    def readings(self, selector: str, *, since: datetime, until: datetime, step: timedelta) -> Samples:
        """The raw readings of series after `since` up to and with `until`, in JSON, each once.

        A series may come several times, later readings later.

        Raises:
            ServerDownError: The server gives no response, not even for one `step`.
        """
        return merged(list(self.json_readings(selector, since=since, until=until, step=step)))

    def json_readings(self, selector: str, *, since: datetime, until: datetime, step: timedelta) -> Iterator[Samples]:
        """`readings`, answer by answer: each metric alone where the selector names several.

        Raises:
            ServerDownError: The server gives no response, not even for one `step`.
        """

        def fetch(segment: QuerySegment) -> Samples:
            # Some servers leave out the left end of the window, some do not; we leave it out.
            query = f"{segment.what}[{max(1, (segment.high - segment.low) // MILLISECOND)}ms]"
            params = {"query": query, "time": seconds(segment.high)} | self._limits
            samples = samples_of(self._client.body("/api/v1/query", params))
            return tidied(samples, epoch_ms(segment.low) + 1, epoch_ms(segment.high))

        low, high = whole(since), whole(until)
        if low >= high:
            return
        segments = [QuerySegment(one, low, high) for one in by_name(selector)]
        for _, samples in self._segments(fetch, segments, step, apart=timedelta(0), at_once=self._concurrency):
            if samples.labels:
                yield samples

    def streams(self) -> bool:
        """Whether it answers remote reads with streamed chunks. It is probed once.

        Raises:
            ServerDownError: The server gives no response.
        """
        if self._streams is None:
            try:
                self._streams = self._client.request(lambda: self._streamed(wire.request([], 0, 0), _is_empty))
            except (NotStreamedError, LimitExceededError):
                self._streams = False
        return self._streams

    def exports(self) -> bool:
        """Whether it exports raw readings as VictoriaMetrics does. It is probed once.

        Raises:
            ServerDownError: The server gives no response.
        """
        if self._exports is None:
            params = {"match[]": export.NOTHING, "start": 0, "end": 1}
            try:
                self._exports = self._client.request(lambda: self._exported(params, _is_empty))
            except (NotStreamedError, LimitExceededError):
                self._exports = False
        return self._exports

    def describe_transport(self) -> str:
        """The name of the transport of its raw readings, for messages.

        Raises:
            ServerDownError: The server gives no response.
        """
        if self.streams():
            return "remote read"
        if self.exports():
            return "VictoriaMetrics' export"
        return "queries in JSON: it has no remote read with streamed chunks"

    def samples(
        self,
        selector: str,
        *,
        first: datetime,
        last: datetime,
        step: timedelta,
        each: Callable[[Samples], Answer],
    ) -> list[Answer] | None:
        """Results of `each` for the raw readings of series, batch by batch. None: query in JSON (`json_readings`).

        They come by remote read or by VictoriaMetrics' export. Readings are those after `first` less a step, up to and
        with `last`. Where one request is too large, batches begin and end on the grid, or hold some of the metrics;
        no series' readings of one step are in two of them.

        Raises:
            ServerDownError: The server gives no response, not even for one step.
        """
        all_of_it = QuerySegment(selector, first, last)
        if wire.matchers(selector) is not None and self.streams():
            try:
                names = self._label_names(selector, since=first - step, until=last)
                answers = self._in_turn(lambda segment: self._read(segment, step, names, each), all_of_it, step)
            except NotStreamedError:
                self._streams = False
            else:
                self._transport = "remote_read"
                return answers
        if self.exports():
            try:
                answers = self._in_turn(lambda segment: self._export(segment, step, each), all_of_it, step)
            except NotStreamedError:
                self._exports = False
            else:
                self._transport = "export"
                return answers
        return None

    def _in_turn(
        self, fetch: Callable[[QuerySegment], list[Answer]], segment: QuerySegment, step: timedelta
    ) -> list[Answer]:
        answers = self._segments(fetch, [segment], step, apart=step, at_once=1)
        return [answer for _, some in answers for answer in some]

    def _read(
        self, segment: QuerySegment, step: timedelta, names: frozenset[str], each: Callable[[Samples], Answer]
    ) -> list[Answer]:
        """One remote read."""
        conditions = wire.matchers(segment.what) or []
        low, high = epoch_ms(segment.low - step) + 1, epoch_ms(segment.high)

        def take(parts: Iterator[bytes]) -> list[Answer]:
            return [each(batch) for batch in wire.batches(parts, low, high, names, self._known_labels)]

        return self._streamed(wire.request(conditions, low, high), take)

    def _export(self, segment: QuerySegment, step: timedelta, each: Callable[[Samples], Answer]) -> list[Answer]:
        """One export."""
        begin = segment.low - step + MILLISECOND
        low, high = epoch_ms(begin), epoch_ms(segment.high)
        params = {"match[]": segment.what, "start": seconds(begin), "end": seconds(segment.high)} | self._limits
        digest = export.Digest()

        def take(parts: Iterator[bytes]) -> list[Answer]:
            return [each(batch) for batch in export.batches(parts, low, high, digest)]

        answers = self._exported(params, take)
        self._client.see(digest.digest())
        return answers

    def _label_names(self, selector: str, *, since: datetime, until: datetime) -> frozenset[str]:
        """Names of the labels that series have for PromQL; remote read adds the server's own."""
        params = {"match[]": selector, "start": since.timestamp(), "end": until.timestamp()} | ONLY_WHOLE_ANSWERS

        def fetch() -> list[str]:
            with not_streamed():
                return names_of(self._client.library.get_label_names(params=dict(params)))

        try:
            return frozenset(["__name__", *self._client.request(fetch)])
        except LimitExceededError as error:
            raise NotStreamedError from error

    def ever(self, selector: str, by: str, *, since: datetime, until: datetime, step: timedelta) -> Series:
        """One entry for each value of the labels `by` where a series was above zero at any time; some may come twice.

        Raises:
            ServerDownError: The server gives no response, not even for one `step`.
        """

        def fetch(segment: QuerySegment) -> Series:
            width = max(1, -((segment.low - segment.high) // MILLISECOND))
            return self._now(f"max by ({by}) (max_over_time({segment.what}[{width}ms])) > 0", segment.high)

        segments = [QuerySegment(selector, since, until)]
        answers = self._segments(fetch, segments, step, apart=timedelta(0), at_once=self._concurrency)
        return [one for _, some in answers for one in some]

    def latest(self, selector: str, *, at: datetime) -> float | None:
        """Epoch of the newest reading of series, as far as the server looks back from `at`; None without any.

        Raises:
            ServerDownError: The server gives no response.
        """
        return self.value(f"max(timestamp({selector}))", at=at)

    def value(self, query: str, *, at: datetime) -> float | None:
        """The value of a query that has one, at one time; None where it has none, or none that is finite.

        Raises:
            ServerDownError: The server gives no response.
        """
        return next((value for _, value in self.values(query, at=at)), None)

    def count_by_name(self, selector: str, *, at: datetime) -> dict[str, int]:
        """Number of series of a server at one time, by the name of the metric.

        Raises:
            ServerDownError: The server gives no response, or refuses to count so many.
        """
        counted = self.values(f"count by (__name__) ({selector})", at=at)
        return {labels.get("__name__", ""): round(number) for labels, number in counted}

    def values(self, query: str, *, at: datetime) -> list[tuple[dict[str, str], float]]:
        """The labels and finite values of a query at one time; raises as `count_by_name`."""
        try:
            result = self._client.request(lambda: self._now(query, at))
            values = self._client.once(lambda: [(each["metric"], number_of(each["value"][1])) for each in result])
        except LimitExceededError as error:
            raise self._refusal(error) from None
        return [(labels, value) for labels, value in values if math.isfinite(value)]

    def _now(self, query: str, at: datetime) -> Series:
        """The series of a query at one time, with one value each."""
        params = {"time": at.timestamp()} | self._limits
        return series_of(self._client.library.custom_query(query, params=dict(params)), "value")

    def _segments(
        self,
        fetch: Callable[[QuerySegment], Answer],
        segments: Iterable[QuerySegment],
        step: timedelta,
        *,
        apart: timedelta,
        at_once: int,
    ) -> Iterator[tuple[QuerySegment, Answer]]:
        """The answers in the order of the segments, which are cut where they are too large.

        Halves of a time lie so much `apart` (a step on a grid). With several `at_once` they are fetched in threads.
        """
        ready: deque[tuple[QuerySegment, Callable[[], Answer] | None]] = deque((segment, None) for segment in segments)
        while ready:
            if at_once > 1 and len(ready) > 1:
                self._start(fetch, ready, at_once)
            segment, answer = ready.popleft()
            try:
                yield segment, answer() if answer else self._client.request(partial(fetch, segment))
            except LimitExceededError as error:
                smaller = halves(segment, step, apart, error)
                if not smaller:
                    raise self._refusal(error) from None
                ready.extendleft((each, None) for each in reversed(smaller))

    def _start(
        self,
        fetch: Callable[[QuerySegment], Answer],
        ready: deque[tuple[QuerySegment, Callable[[], Answer] | None]],
        at_once: int,
    ) -> None:
        """Start the first requests in threads; those already started are among them or behind, and go on."""
        for number in range(min(at_once, len(ready))):
            segment, answer = ready[number]
            if answer is None:
                ready[number] = segment, started(partial(self._in_its_turn, fetch, segment))

    def _in_its_turn(self, fetch: Callable[[QuerySegment], Answer], segment: QuerySegment) -> Answer:
        with self._turns:
            return self._client.request(partial(fetch, segment))

    def _streamed(self, body: bytes, take: Callable[[Iterator[bytes]], Answer]) -> Answer:
        """Result of `take` for the parts of the answer to a remote read."""
        digest = hashlib.sha256()
        with not_streamed():
            response = self._client.post(wire.PATH, body, wire.HEADERS)
        if not response.headers.get("Content-Type", "").startswith(wire.STREAMED):
            response.close()
            raise NotStreamedError
        parts = _hashed(self._client.parts(response, LARGEST_STREAM), digest.update)
        answer = self._taken(parts, take)
        self._client.see(digest.digest())
        return answer

    def _exported(self, params: dict[str, Any], take: Callable[[Iterator[bytes]], Answer]) -> Answer:
        """Result of `take` for the parts of the answer to an export."""
        with not_streamed():
            response = self._client.stream(export.PATH, params)
        if not response.headers.get("Content-Type", "").startswith(export.KIND):
            response.close()
            raise NotStreamedError
        return self._taken(self._client.parts(response, LARGEST_STREAM), take)

    def _taken(self, parts: Iterator[bytes], take: Callable[[Iterator[bytes]], Answer]) -> Answer:
        try:
            return take(parts)
        except wire.UnknownChunksError as error:
            raise NotStreamedError from error
        except export.LongLineError as error:
            raise LimitExceededError(str(error)) from None
        except wire.GarbledError as error:
            message = self._client.hide(str(error))
            if TOO_MUCH.search(message):
                raise LimitExceededError(message) from None
            raise TemporaryError(self._client.down(f"breaks an answer off: {shorten(message)}", LATER)) from None

    def _refusal(self, error: Exception) -> ServerDownError:
        hint = (
            "Even the smallest segment is too large for one query. Narrow prometheus.selector, or raise the server's "
            "limit (Prometheus: --query.max-samples, --query.timeout)."
        )
        return self._client.down(f"refuses the query: {shown(str(error))}", hint)


def _is_empty(parts: Iterator[bytes]) -> bool:
    return not any(parts)


def _hashed(parts: Iterator[bytes], update: Callable[[bytes], None]) -> Iterator[bytes]:
    for part in parts:
        update(part)
        yield part
