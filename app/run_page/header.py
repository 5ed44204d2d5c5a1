"""What a run is: who, where, on what, and when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from app.formatting import duration, minute
from app.results.runs.joins import JOINED_BY
from app.run_page import texts
from app.run_page.lines import LABEL
from app.run_page.log_only import LOGGED_STATE
from app.terminal.cells import fit, width
from ingest.counted import counted

if TYPE_CHECKING:
    from app.run_page.contents import Row, RunContents
    from app.run_page.lines import TextPage
    from app.terminal.colour import Meaning

_STATES: Final[dict[str, Meaning]] = {
    "COMPLETED": "good",
    "RUNNING": "good",
    "PENDING": "warning",
    "SUSPENDED": "warning",
    "PREEMPTED": "warning",
    "CANCELLED": "warning",
    "REQUEUED": "warning",
    LOGGED_STATE: "quiet",
}

_LAST_SIGNAL: Final = 64
"""Linux has no higher signal. Slurm writes 125 behind the exit status of a job that ran out of memory (0:125)."""


def title(page: TextPage, contents: RunContents) -> None:
    """Name and state; run and jobs."""
    run = contents.run
    state = "log only" if contents.choice.logged_only else texts.name(run["state"])
    called = texts.name(run["name"], none=texts.name(run["run_id"]))
    room = page.columns - width(state) - 1
    page.add((fit(called, room), "strong"), (" ", None), (state, _STATES.get(run["state"], "bad")))
    page.text(_identity(contents))
    page.rule()


def _identity(contents: RunContents) -> str:
    """Which run and which jobs it is."""
    run_id, cluster = (texts.name(each) for each in (contents.choice.run_id, contents.choice.cluster))
    if contents.choice.logged_only:
        return f"Run {run_id}, described by its log alone (cluster {cluster})"
    jobs = list(dict.fromkeys(texts.name(row["display_id"] or row["job_id"]) for row in contents.attempts))
    listed = ", ".join(jobs[:6]) + (f" and {len(jobs) - 6:,} more" if jobs[6:] else "")
    word = "job" if len(jobs) == 1 else "jobs"
    if run_id.startswith(f"{contents.attempts[0]['job_id']}-"):
        return f"{word.capitalize()} {listed} on {cluster} (run {run_id})"
    return f"Run {run_id} on {cluster}: {word} {listed}"


def facts(page: TextPage, contents: RunContents) -> None:
    """Who, where, on what, and when."""
    run = contents.run
    if not contents.choice.logged_only:
        page.fact("User", _owner(contents))
    page.fact("GPUs", gpus_text(contents))
    if contents.choice.logged_only:
        _times_of_log(page, contents)
        return
    nodes = _held_nodes(contents)
    if nodes:
        page.fact("Nodes", fit(nodes, page.columns - LABEL).rstrip())
    page.fact("Submitted", f"{minute(run['first_submitted_at'])} UTC")
    page.fact("Started", _started(contents))
    if contents.started:
        page.fact("Ended", _ended(contents))
    if run["n_attempts"] > 1:
        page.fact("Attempts", _attempts(contents))


def _owner(contents: RunContents) -> str:
    run, last = contents.run, last_held(contents)
    rest = (("account", run["account"]), ("partition", run["partition"]), ("QOS", last.get("qos")))
    words = [texts.name(run["user"])]
    words += [f"{label} {texts.name(value)}" for label, value in rest if value]
    return ", ".join(words)


def last_held(contents: RunContents) -> Row:
    """The last attempt that held nodes, else the last one."""
    held = [row for row in contents.attempts if row["started_at"] is not None]
    return (held or contents.attempts)[-1]


def components(contents: RunContents) -> list[Row]:
    """The attempt that `last_held` returns, with the other components of its job."""
    number = last_held(contents)["attempt_no"]
    return [row for row in contents.attempts if row["attempt_no"] == number]


def gpus_text(contents: RunContents) -> str:
    """GPUs, nodes and model in words."""
    if contents.choice.logged_only:
        model = texts.name(last_held(contents)["gpu_model"], none="model not logged")
        return f"{texts.count(contents.gpus)} x {model}" if contents.gpus else f"number not logged; {model}"
    rows = components(contents)
    if not contents.started:
        requested = [row["req_gpus"] for row in rows]
        nodes = sum(row["req_nodes"] or 0 for row in rows)
        if None in requested:
            return f"{counted(nodes, 'node')} requested; accounting records no request of GPUs"
        return f"{texts.count(sum(requested))} requested on {counted(nodes, 'node')}"
    held = [row["n_gpus"] for row in rows]
    total = f"{texts.count(sum(held))}: " if len(held) > 1 and None not in held else ""
    return total + "; ".join(_allocation(row) for row in rows)


def _allocation(row: Row) -> str:
    """What one attempt, or a component of it, held.

    >>> _allocation({"n_nodes": 1, "n_gpus": 0, "n_cpus": None})
    'none; CPUs unknown, on 1 node'
    """
    nodes, gpus = row["n_nodes"], row["n_gpus"]
    on = counted(nodes, "node")
    if gpus is None:
        return f"unknown: accounting records none for its {on}"
    if not gpus:
        return f"none; {counted(row['n_cpus'], 'CPU')} on {on}" if row["n_cpus"] else f"none; CPUs unknown, on {on}"
    model = f" {texts.name(row['gpu_model'])}" if row["gpu_model"] else ""
    each = gpus / nodes if nodes else gpus
    spread = f"{on} x {texts.count(each)}" if each == int(each) or nodes == 1 else on
    source = "" if row["gpus_from"] == "accounting" else f" (known from: {texts.name(row['gpus_from'])})"
    return (
        f"{texts.count(gpus)}{model}: {spread}{source}" if nodes > 1 else f"{texts.count(gpus)}{model} on {on}{source}"
    )


def _held_nodes(contents: RunContents) -> str:
    """The nodes of the last attempt, marked as its own where an earlier attempt held others."""
    nodes = ", ".join(texts.name(row["node_list"]) for row in components(contents) if row["node_list"])
    starts = {row["started_at"] for row in contents.attempts if row["node_list"]}
    lists = {row["node_list"] for row in contents.attempts if row["node_list"]}
    return f"{nodes}, in the last attempt" if nodes and min(len(starts), len(lists)) > 1 else nodes


def _started(contents: RunContents) -> str:
    run = contents.run
    if not contents.started:
        reason = last_held(contents)["reason"]
        why = f"; reason: {texts.name(reason)}" if reason and reason != "None" else ""
        if contents.over:
            return f"never; it ended {minute(run['ended_at'])} UTC without having started"
        since = run["eligible_at"]
        if since is None:
            return f"not yet: it is not eligible to start{why}"
        return f"not yet: waits for {duration((contents.window.until - since).total_seconds())}{why}"
    waited = None if run["eligible_at"] is None else (run["started_at"] - run["eligible_at"]).total_seconds()
    queue = "" if waited is None or waited <= 0 else f", after {duration(waited)} in the queue"
    return f"{minute(run['started_at'])} UTC{queue}"


def _ended(contents: RunContents) -> str:
    run, until = contents.run, contents.window.until
    last = last_held(contents)
    limit = last.get("time_limit_s")
    limited = f" (limit {duration(limit)})" if limit and run["n_attempts"] == 1 else ""
    if not contents.over:
        so_far = duration(max(0.0, (until - run["started_at"]).total_seconds()))
        word = "not yet" if last["ended_at"] is None else "not yet: waits for nodes again"
        return f"{word}; {so_far} since its first start by {minute(until)}, the end of the data{limited}"
    lasted_s = (run["ended_at"] - run["started_at"]).total_seconds()
    used = _used(lasted_s, limit) if limit and run["n_attempts"] == 1 else ""
    return f"{minute(run['ended_at'])} UTC, after {duration(lasted_s)}{used}{_exit(last)}"


def _used(lasted_s: float, limit: float) -> str:
    """How much of its time limit an attempt used."""
    share = round(100 * lasted_s / limit)
    return f" (limit {duration(limit)}, {f'{share:,}' if share else '< 1'} % used)"


def _exit(row: Row) -> str:
    """The signal or the exit status that ended an attempt; empty where there is none.

    >>> _exit({"exit_signal": 9, "exit_code": 0}), _exit({"exit_signal": 125, "exit_code": 0})
    (', signal 9', '')
    """
    if 0 < (row.get("exit_signal") or 0) <= _LAST_SIGNAL:
        return f", signal {row['exit_signal']}"
    return f", exit status {row['exit_code']}" if row.get("exit_code") else ""


def _attempts(contents: RunContents) -> str:
    later = Counter(row["joined_by"] for row in contents.attempts if row["attempt_no"] > 1)
    words = ((JOINED_BY.get(word, word), "" if n == 1 else f" ({n:,})") for word, n in later.most_common())
    how = ", ".join(f"joined by {word}{times}" for word, times in words)
    return f"{contents.run['n_attempts']:,}: {how}" if how else f"{contents.run['n_attempts']:,}"


def _times_of_log(page: TextPage, contents: RunContents) -> None:
    run = contents.run
    lasted = (run["ended_at"] - run["started_at"]).total_seconds()
    page.fact("First line", f"{minute(run['started_at'])} UTC")
    page.fact("Last line", f"{minute(run['ended_at'])} UTC, {duration(lasted)} later{_read(contents)}")
    page.fact("Processes", texts.count(len(contents.attempts)))


def _read(contents: RunContents) -> str:
    end, read_at = contents.log_read or (None, None)
    if end is None or read_at is None:
        return ""
    return f"; read {duration(max(0.0, (read_at - end).total_seconds()))} after that"
