"""Names of a job's run, besides the scheduler's own ids: labels that its user gave it.

An environment variable, a key in the comment, the wckey or a pattern of job names marks several jobs as one run,
each only where the configuration enables it. Dependencies on another job (`--dependency=afterany:...`) cannot be used:
Slurm's accounting does not keep dependencies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from metrics import frames

NAMED: frames.Schema = {name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY} | {
    "run_id": frames.TEXT,
    "joined_by": frames.TEXT,
}
"""The run name of an attempt, and the rule that gave it."""

APART = "@"
"""Stands between a name that is not one run and what distinguishes its runs; no job id has one."""

LOGGED = "explicit"
BY_RULE = ("environment", "comment", "wckey", "name_pattern")
"""Words of `joined_by` for the rules below; the first one that names a run counts. A run's own log beats them all."""


@dataclass(frozen=True)
class RunRules:
    """Rules that join jobs to runs beyond requeues.

    Attributes:
        env: environment variable whose value names the run; none if empty.
        comment_key: key in the comment of the job or of its administrators; none if empty.
        wckey: whether the workload characterisation key names the run.
        names: regular expressions (Rust's) of job names. The group `run`, else the first group, else what matched
            names the run.
    """

    env: str = ""
    comment_key: str = ""
    wckey: bool = False
    names: tuple[str, ...] = ()


def named_runs(
    attempts: pl.DataFrame, labels: pl.DataFrame, rules: RunRules, logged: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The name of each attempt's run, and the rule that gave it.

    Args:
        attempts: `frames.ATTEMPTS`.
        labels: `frames.ATTEMPT_LABELS`; attempts that it lacks have none.
        rules: which rules hold.
        logged: attempt key and `run_id` by the logs, as `metrics.runs.steps.explicit_runs` returns it.

    Returns:
        `NAMED`, the attempts that something names. Names that come from a pattern are of one account each: where a
        user has jobs of one name in several accounts, the account is appended.
    """
    key = list(frames.ATTEMPT_KEY)
    # Without a pattern only labels and logs name a run, which few attempts have.
    may_be_named = attempts if rules.names else attempts.join(_keys(labels, logged), on=key, how="semi")
    labelled = may_be_named.select(*key, "user", "account", "name").join(labels, on=key, how="left")
    by_rule = {
        "environment": _environment(rules.env),
        "comment": _comments(rules.comment_key),
        "wckey": _wckey() if rules.wckey else _NOTHING,
        "name_pattern": pl.coalesce(_NOTHING, *(_by_pattern(pattern) for pattern in rules.names)),
    }
    labelled = labelled.with_columns(pl.when(one != "").then(one).alias(f"#{word}") for word, one in by_rule.items())
    several = (pl.col("account").drop_nulls().n_unique().over("cluster", "user", "#name_pattern") > 1) & pl.col(
        "#name_pattern"
    ).is_not_null()
    apart = pl.col("#name_pattern") + APART + pl.col("account").fill_null("?")
    labelled = labelled.with_columns(pl.when(several).then(apart).otherwise("#name_pattern").alias("#name_pattern"))
    if logged is None:
        labelled = labelled.with_columns(_NOTHING.alias(f"#{LOGGED}"))
    else:
        labelled = labelled.join(logged.select(*key, pl.col("run_id").alias(f"#{LOGGED}")), on=key, how="left")
    words = (LOGGED, *BY_RULE)
    named = labelled.with_columns(
        run_id=pl.coalesce(f"#{word}" for word in words),
        joined_by=pl.coalesce(pl.when(pl.col(f"#{word}").is_not_null()).then(pl.lit(word)) for word in words),
    )
    return frames.conform(named.filter(pl.col("run_id").is_not_null()), NAMED)


def _keys(labels: pl.DataFrame, logged: pl.DataFrame | None) -> pl.DataFrame:
    key = list(frames.ATTEMPT_KEY)
    return pl.concat([rows.select(key) for rows in (labels, logged) if rows is not None])


_NOTHING = pl.lit(None, dtype=pl.String)


def _environment(name: str) -> pl.Expr:
    """The variable as Slurm stored it, else as the command line gives it: `--export=ALL,NAME=value`.

    Without AccountingStoreFlags=job_env Slurm stores no environment, and a variable that was set in the shell from
    which the job was submitted is not seen.
    """
    if not name:
        return _NOTHING
    option = rf"""(?:^|\s)--export[=\s]\s*["']?(?:[^\s,]*,)*{re.escape(name)}=["']?([^\s,"']+)"""
    return pl.coalesce(pl.when(pl.col("env_run") != "").then("env_run"), pl.col("submit_line").str.extract(option))


def _comments(key: str) -> pl.Expr:
    """`key=NAME` between blanks, commas or semicolons, or a member of a JSON object; the job's own comment first."""
    if not key:
        return _NOTHING
    return pl.coalesce(_in_comment(pl.col("comment"), key), _in_comment(pl.col("admin_comment"), key))


def _in_comment(comment: pl.Expr, key: str) -> pl.Expr:
    plain = comment.str.extract(rf"""(?:^|[\s,;]){re.escape(key)}=["']?([^\s,;"']+)""")
    json = pl.when(comment.str.contains(r"^\s*\{")).then(comment)
    member = json.str.json_path_match(f'$["{key}"]')
    # Only a text or a number can be a name.
    return pl.coalesce(pl.when(~member.str.contains(r"^[\[{]")).then(member), pl.when(json.is_null()).then(plain))


def _wckey() -> pl.Expr:
    """The key that was requested. Slurm marks the one that it set by default with a `*`."""
    return pl.when(~pl.col("wckey").str.starts_with("*")).then("wckey")


def _by_pattern(pattern: str) -> pl.Expr:
    """Part of a job's name that a pattern extracts: the group `run`, else the first group, else the whole match."""
    groups = pl.Series([""], dtype=pl.String).str.extract_groups(pattern).struct.fields
    if not groups:
        return pl.col("name").str.extract(pattern, 0)
    return pl.col("name").str.extract(pattern, groups.index("run") + 1 if "run" in groups else 1)
