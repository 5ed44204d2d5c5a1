"""Panics of libraries written in Rust (polars): they pass `except Exception`, for they are no `Exception`.

Rust prints its own lines (`thread ... panicked at ...`) on file descriptor 2 before the exception is raised. They stay
above our message of one line. Only code written in Rust can replace the hook that prints them, and polars offers no
setting for it. To redirect the descriptor would hide more than these lines: what the allocator, DuckDB or the kernel's
loader print before they end the process would be lost with it, and those are the only traces of such an end.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment


def is_panic(error: BaseException) -> bool:
    """Whether it is a panic. Each library has a class of its own for it, so the name decides.

    >>> is_panic(ValueError("x")), is_panic(KeyboardInterrupt())
    (False, False)
    """
    return any(kind.__name__ == "PanicException" for kind in type(error).__mro__)


class LibraryPanicError(RuntimeError):
    """A library gave up on an input in a way that it does not foresee itself."""


@contextlib.contextmanager
def as_errors() -> Iterator[None]:
    """Turn panics into errors that handlers of errors see; all else passes.

    Raises:
        LibraryPanicError: in place of the panic.
    """
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise LibraryPanicError(message(error)) from error
        raise


def message(error: BaseException) -> str:
    r"""A panic in one line.

    >>> message(Exception("out-of-range date\nbacktrace"))
    'a library gave up (out-of-range date)'
    """
    return f"a library gave up ({(str(error).strip().splitlines() or ['without a reason'])[0][:200]})"


def answered(
    application: Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]],
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """A WSGI application that responds to panics with status 500, as to errors."""

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            with as_errors():
                return application(environment, start)
        except LibraryPanicError as error:
            text = f"Something went wrong here: {error}. The log of the server has the details.\n".encode()
            start("500 Internal Server Error", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
            return [text]

    return answer
