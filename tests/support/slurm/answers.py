"""Slurm's answers in JSON in the shape of each version, with values of our own: what tests of them are made from."""

from __future__ import annotations

import json
from typing import Any

NEWEST = "0.0.44"
VERSIONS = ("0.0.38", "0.0.39", "0.0.40", "0.0.41", "0.0.42", "0.0.43", NEWEST)


def number(version: str, value: int | None, *, infinite: bool = False) -> object:
    """A number that may not be set."""
    if version < "0.0.39":
        return value
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def exit_code(version: str, status: int = 0, signal: int = 0) -> dict[str, Any]:
    """How something exited. 22.05 (0.0.38) calls every plain exit a success."""
    if version == "0.0.38":
        if signal:
            return {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": signal, "name": "x"}}
        return {"status": "SUCCESS", "return_code": 0}
    status_word = "SIGNALED" if signal else "ERROR" if status else "SUCCESS"
    if version == "0.0.39":
        reported = {"status": status_word, "return_code": status}
        return {**reported, "signal": {"signal_id": signal, "name": "x"}} if signal else reported
    return {
        "status": [status_word],
        "return_code": number(version, None if signal else status),
        "signal": {"id": number(version, signal or None), "name": "x" if signal else ""},
    }


def tres(version: str, *, gpus: int, kind: str = "") -> list[dict[str, Any]]:
    """Resources of two nodes; what was not measured is null up to 0.0.38, and -2 later."""
    nameless = None if version == "0.0.38" else ""
    items: list[tuple[str, str | None, int, int | None]]
    items = [("cpu", nameless, 1, 64), ("mem", nameless, 2, 512_000), ("node", nameless, 4, 2)]
    items += [("energy", nameless, 3, None if version == "0.0.38" else -2), ("gres", "gpu", 1001, gpus)]
    items += [("gres", f"gpu:{kind}", 1002, gpus)] if kind else []
    return [dict(zip(("type", "name", "id", "count"), item, strict=True)) for item in items]


def job(version: str = NEWEST, **changes: object) -> dict[str, Any]:
    """A job of two nodes and 16 GPUs that failed with 3; `changes` replace top-level fields."""
    old = version == "0.0.38"
    word = (lambda text: text) if version <= "0.0.39" else (lambda text: [text])
    result: dict[str, Any] = {
        "account": "llm",
        "comment": {"administrator": None if old else "checked", "job": "run 7, again", "system": None},
        "allocation_nodes": 2,
        "array": {
            "job_id": 0,
            "limits": {"max": {"running": {"tasks": 0}}},
            "task_id": number(version, None),
            "task": None if old else "",
        },
        "association": {"account": "llm", "cluster": "bench", "partition": None, "user": "alice"},
        "cluster": "bench",
        "constraints": "h100",
        "derived_exit_code": exit_code(version),
        "exit_code": exit_code(version, 3),
        "flags": ["STARTED_ON_BACKFILL"] if old else ["STARTED_ON_BACKFILL", "START_RECEIVED"],
        "group": "research",
        "het": {"job_id": 0, "job_offset": number(version, None)},
        "job_id": 700,
        "kill_request_user": None if old else "",
        "mcs": {"label": ""},
        "name": "train|a",
        "nodes": "n[1-2]",
        "partition": "main",
        "priority": number(version, 11_000),
        "qos": "normal",
        "required": {"CPUs": 64, **({"memory": 4000} if old else {"memory_per_node": number(version, 256_000)})},
        "reservation": {"id": 0, "name": 0 if old else ""},
        "state": {"current": word("FAILED"), "reason": "Resources"},
        "steps": [{"exit_code": exit_code(version, 3), "state": word("FAILED"), "step": {"name": "batch"}}],
        "time": {
            "elapsed": 3600,
            "eligible": 1_790_000_000,
            "end": 1_790_003_700,
            "start": 1_790_000_090,
            "submission": 1_790_000_000,
            "suspended": 10,
            "system": {"seconds": 0, "microseconds": 0},
            "limit": number(version, 90),
        },
        "tres": {"allocated": tres(version, gpus=16, kind="h100"), "requested": tres(version, gpus=16)},
        "user": "alice",
        "wckey": {"wckey": "pretrain", "flags": ["ASSIGNED_DEFAULT"]},
        "working_directory": "/home/alice",
    }
    if not old:
        result |= {"submit_line": "sbatch train.sh", "failed_node": "n2", "container": "", "extra": "", "hold": False}
    if version >= "0.0.41":
        result |= {"stdin_expanded": "/dev/null", "stdout_expanded": "/home/alice/700.out"}
    if version >= "0.0.44":
        result |= {"restart_cnt": 2, "qosreq": "", "segment_size": 0}
    return result | changes


def meta(version: str) -> dict[str, Any]:
    """Who answered."""
    if version == "0.0.38":
        plugin = {"type": "openapi/dbv0.0.38", "name": "Slurm OpenAPI DB v0.0.38"}
        return {"plugin": plugin, "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": "22.05.8"}}
    if version == "0.0.39":
        plugin = {"type": "openapi/dbv0.0.39", "name": "Slurm OpenAPI DB v0.0.39", "data_parser": "v0.0.39"}
        return {"plugin": plugin, "Slurm": {"release": "23.02.8"}}
    plugin = {"type": "openapi/slurmdbd", "name": "x", "data_parser": f"data_parser/v{version}"}
    return {"plugin": plugin, "client": {"source": "x"}, "slurm": {"release": "24.05.1", "cluster": "bench"}}


def answer(version: str = NEWEST, *, errors: list[Any] | None = None, **lists: object) -> bytes:
    """A whole answer; `meta` comes first up to 0.0.39, and after the rows later."""
    about = {"meta": meta(version), "errors": errors or [], "warnings": []}
    reported = {**about, **lists} if version <= "0.0.39" else {**lists, **about}
    return json.dumps(reported, indent=1).encode()


def node(version: str = NEWEST, **changes: object) -> dict[str, Any]:
    """A drained node of eight GPUs."""
    old = version == "0.0.38"

    def when(value: int) -> object:
        return value if version <= "0.0.39" else number(version, value)

    result: dict[str, Any] = {
        "name": "n1",
        "architecture": "x86_64",
        "boot_time": when(1_789_000_000),
        "slurmd_start_time": when(1_789_000_100),
        "last_busy": when(1_790_000_000),
        "cpus": 64,
        "real_memory": 512_000,
        "features": "h100,ib" if old else ["h100", "ib"],
        "active_features": "h100,ib" if old else ["h100", "ib"],
        "gres": "gpu:h100:8",
        "tres": "cpu=64,mem=500G,billing=64,gres/gpu=8",
        "partitions": ["main", "scav"],
        "reason": "bad gpu | 3",
        "reason_changed_at": when(1_789_999_000),
        "reason_set_by_user": "root",
        **({"state": "idle", "state_flags": ["DRAIN"]} if old else {"state": ["IDLE", "DRAIN"]}),
    }
    return result | changes
