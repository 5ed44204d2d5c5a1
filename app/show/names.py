"""Notes on the names in an answer about people: renamed users, and names and uids that do not match one to one."""

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
    """Uids with several names, and names with several uids: nothing is merged by them."""
    of_uids, of_users = uid_mismatches(source, window)
    shared = _listed([f"{_names(users)} ({uid})" for uid, users in of_uids.select("uid", "users").rows()])
    several = _listed([f"{user} ({_names(uids)})" for user, uids in of_users.select("user", "uids").rows()])
    one_uid = f"One uid, several names, and no account change has a new name: {shared}. They are counted separately."
    one_name = f"One name, several uids, so perhaps several people: {several}. They are counted together."
    return (*((one_uid,) if shared else ()), *((one_name,) if several else ()))


def _names(names: list[str | int]) -> str:
    *others, last = map(str, names)
    return f"{', '.join(others)} and {last}"


def _listed(texts: list[str]) -> str:
    more = len(texts) - MOST_NAMED
    return "; ".join([*texts[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])
