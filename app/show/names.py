"""What an answer about people says of their names: who was renamed, and names and numbers that do not go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.results.people.use import renamed_users, uid_mismatches

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

MOST_NAMED: Final = 5
"""Cases that a note names."""


def renamed_notes(source: Reader, window: Window) -> tuple[str, ...]:
    """Who is listed under another name than before."""
    renamed = renamed_users(source, window)
    if renamed.is_empty():
        return ()
    named = _listed(
        [f"{old} is {new} since {ts:%Y-%m-%d}" for ts, old, new in renamed.select("ts", "old", "new").rows()]
    )
    return (f"Renamed, and listed by the latest name: {named}.",)


def uid_notes(source: Reader, window: Window) -> tuple[str, ...]:
    """Numbers that several names had, and names that had several numbers: nothing is merged by them."""
    of_uids, of_users = uid_mismatches(source, window)
    shared = _listed([f"{_names(users)} ({uid})" for uid, users in of_uids.select("uid", "users").rows()])
    several = _listed([f"{user} ({_names(uids)})" for user, uids in of_users.select("user", "uids").rows()])
    one_uid = f"One uid, several names, and no account change tells of a new name: {shared}. They stay apart."
    one_name = f"One name, several uids, so perhaps several people: {several}. They are counted together."
    return (*((one_uid,) if shared else ()), *((one_name,) if several else ()))


def _names(names: list[str | int]) -> str:
    *others, last = map(str, names)
    return f"{', '.join(others)} and {last}"


def _listed(texts: list[str]) -> str:
    more = len(texts) - MOST_NAMED
    return "; ".join([*texts[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])
