"""Traps in sizes and counts: TRES and GRES, requested memory, time limits, scaled numbers, marks for "not set"."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ingest.load_warnings import messages
from tests.support.slurm.parsing import NEVER_RAN, parse, text
from tests.support.slurm.traps import Trap, refused, spring, traps

MIB, GIB = 1 << 20, 1 << 30
NO_GPUS = "no job has a gres/gpu in its TRES"
BARE = {"ReqTRES": ""}


def gpus(tres: str, count: float | None, model: str | None = None) -> Trap:
    n_gpus = None if count is None else Decimal(str(count))
    want: dict[str, object] = {"n_gpus": n_gpus, "gpu_model": model, "alloc_tres": tres}
    return Trap(tres, {**BARE, "AllocTRES": tres}, want, warned=NO_GPUS if count is None else "")


# --- GPUs in TRES -------------------------------------------------------------------------------------

COUNTED = [
    gpus("billing=2,cpu=2,gres/gpu:h100=4,gres/gpu=4,mem=2000M,node=2", 4, "h100"),  # both: once
    gpus("gres/gpu=4,gres/gpu:h100=4", 4, "h100"),
    gpus("gres/gpu=4", 4),
    gpus("gres/gpu:h100=4", 4, "h100"),  # only the types are listed in AccountingStorageTRES
    gpus("gres/gpu:a100=2,gres/gpu:h100=1", 3, "a100+h100"),
    gpus("gres/gpu:a100=2,gres/gpu:h100=1,gres/gpu=3", 3, "a100+h100"),
    gpus("gres/gpu:a100=2,gres/gpu=4", 4, "a100"),  # not all types are listed
    gpus("gres/gpu:h100=8,gres/gpu=0", 8, "h100"),  # a contradiction: what was held of a type was held
    gpus("gres/gpu:nvidia_h100_80gb_hbm3=8,gres/gpu=8", 8, "nvidia_h100_80gb_hbm3"),
    gpus("GRES/GPU=2", 2),
    gpus("gpu=2", 2),  # as in tres_per_node of the controller
    gpus("gres/gpu=0.25K", 256),  # on two nodes
    gpus("gres/gpu=2,", 2),
    # MIG: a slice counts as the part of a GPU that it is, here as in the node's own TRES; so shares of capacity agree
    gpus("gres/gpu:a100_1g.5gb=7", 1, "a100_1g.5gb"),
    gpus("gres/gpu:a100=1,gres/gpu:a100_1g.5gb=14,gres/gpu=15", 3, "a100+a100_1g.5gb"),
    gpus("gres/gpu:3g.40gb=7,gres/gpu:4g.40gb=7,gres/gpu=14", 7, "3g.40gb+4g.40gb"),
    gpus("gres/gpu=7", 7),  # types are not listed: nothing tells slices from GPUs
    # decoys
    gpus("gres/gpu=2,gres/gpumem=160G,gres/gpuutil=800", 2),
    gpus("gres/gpumem=80G,gres/gpuutil=100", None),
    gpus("gres/craynetwork=1,gres/gpu=4", 4),
    gpus("gres/gpu_fake=4", None),
    gpus("license/gpu=4", None),
    gpus("cpu=1,mem=1000M,node=1", None),  # none, or not recorded: unknown
    gpus("cpu=1,gres/gpu=0,node=1", 0),
    # others that are no business of ours, however odd
    gpus("billing=8,fs/disk=0,license/matlab@flex=3,ic/ofed=5,bb/cray=1G,gres/gpu=1", 1),
    gpus("energy=-2,gres/gpu=1", 1),  # not measured
    gpus("energy=18446744073709551614,gres/gpu=1", 1),
    gpus("billing=18446744073709551614,gres/gpu=1", 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("trap", traps(*COUNTED))
def test_every_gpu_is_counted_once(trap: Trap) -> None:
    spring(trap)


@pytest.mark.parametrize("part", ["gres/shard=4", "gres/shard:h100=4", "gres/mps=100", "gres/mps:100=50"])
def test_parts_of_gpus_are_unknown_and_reported(part: str) -> None:
    # how many shards make a GPU is a matter of each node's gres.conf, which accounting does not tell
    parsed = parse(text({**BARE, "AllocTRES": part}, {"JobIDRaw": "8"}))
    assert parsed.frames["attempts"].sort("job_id")["n_gpus"].to_list() == [None, 16]
    assert messages(parsed.warnings) == [
        "1 row holds only parts of GPUs (shard or mps): how many GPUs they are is unknown"
    ]


def test_parts_listed_with_whole_gpus_are_those_gpus() -> None:
    spring(gpus("gres/gpu=1,gres/shard=4", 1))


@pytest.mark.parametrize(
    ("tres", "item"),
    [
        ("cpu=2,gres/gpu=", "gres/gpu="),
        ("cpu=2,gres/gpu", "gres/gpu"),
        ("gres/gpu:h10", "gres/gpu:h10"),  # cut by a narrow column
        ("gpu:2", "gpu:2"),
        ("gres/gpu=x", "gres/gpu=x"),
        ("gres/gpu=-2", "gres/gpu=-2"),
        ("gres/gpu=18446744073709551614", "gres/gpu=18446744073709551614"),
        ("gres/gpu=4294967294", "gres/gpu=4294967294"),
        ("gres/gpu=4611686018427387904", "gres/gpu=4611686018427387904"),
        ("cpu=abc", "cpu=abc"),
        ("=4", "=4"),
        ("mem=1GG", "mem=1GG"),
    ],
)
def test_unreadable_count_refuses_a_row_that_held_nodes(tres: str, item: str) -> None:
    assert refused({"AllocTRES": tres}) == f"TRES item '{item}'"


@pytest.mark.parametrize("count", ["8M", "513", "16K", "999999999"])
def test_more_gpus_than_nodes_can_have_refuse_the_row(count: str) -> None:
    reason = refused({"AllocTRES": f"gres/gpu={count}"})
    assert "GPUs on 2 nodes cannot be (at most 256 a node: nodes have 4 to 16 GPUs" in reason
    spring(gpus("gres/gpu=512", 512))


@pytest.mark.parametrize(
    ("raw", "empty"),
    [
        ({"AllocCPUS": "900000"}, "n_cpus"),
        ({"AllocTRES": "cpu=5E,gres/gpu=16"}, "n_cpus"),
        ({"AllocTRES": "mem=5E,gres/gpu=16"}, "alloc_mem_bytes"),
    ],
)
def test_more_cpus_or_memory_than_nodes_have_is_null_and_warned(raw: dict[str, str], empty: str) -> None:
    """The note is a warning."""
    output = "has more CPUs or memory than nodes can have"
    spring(Trap("oversized", raw, {empty: None, "n_gpus": 16}, output))


def test_request_for_more_gpus_than_exist_is_refused() -> None:
    got = parse(text({**NEVER_RAN, "AllocTRES": "", "ReqTRES": "gres/gpu=64M"})).frames["attempts"].row(0, named=True)
    assert got["req_gpus"] is None


UNSET = [
    Trap("cpu not set", {"AllocTRES": "cpu=18446744073709551614,gres/gpu=16"}, {"n_cpus": None, "n_gpus": 16}),
    Trap(
        "mem not set", {"AllocTRES": "mem=18446744073709551615M,gres/gpu=16"}, {"alloc_mem_bytes": None, "n_gpus": 16}
    ),
    Trap("a cluster's memory", {"AllocTRES": "mem=2166393600M,gres/gpu=16"}, {"alloc_mem_bytes": 2166393600 * MIB}),
    Trap("memory in halves", {"AllocTRES": "mem=1084.50M,gres/gpu=16"}, {"alloc_mem_bytes": int(1084.5 * MIB)}),
    Trap("a bare number is in MB", {"AllocTRES": "mem=2000,gres/gpu=16"}, {"alloc_mem_bytes": 2000 * MIB}),
    Trap("cpus of the TRES where no column tells", {"AllocTRES": "cpu=96,gres/gpu=16"}, {"n_cpus": 96}),
    Trap("CPUs in their column", {"AllocCPUS": "4294967294", "AllocTRES": "cpu=96,gres/gpu=16"}, {"n_cpus": 96}),
]


@pytest.mark.parametrize("trap", traps(*UNSET))
def test_what_is_not_set_is_null_and_the_rest_of_the_tres_counts(trap: Trap) -> None:
    spring(trap)


def test_what_a_job_that_never_ran_was_to_get_is_only_requested() -> None:
    got = parse(text({**NEVER_RAN, "AllocTRES": ""})).frames["attempts"].row(0, named=True)
    assert (got["n_gpus"], got["req_gpus"]) == (0, 16)


def test_damaged_tres_of_a_job_that_held_nothing_is_accepted() -> None:
    assert parse(text({**NEVER_RAN, "AllocTRES": "gres/gpu=x"})).rows_loaded == 1


def test_a_request_counts_where_only_the_request_was_recorded() -> None:
    spring(Trap("allocation only", {"AllocTRES": "", "NNodes": "0"}, {"n_gpus": 16, "req_gpus": 16, "n_nodes": 2}))


def test_cluster_without_gpus_in_accounting_is_reported_once() -> None:
    rows = [{**BARE, "JobIDRaw": str(job), "AllocTRES": "cpu=2,mem=1G,node=2"} for job in (1, 2, 3)]
    assert [NO_GPUS in warning for warning in messages(parse(text(*rows)).warnings)] == [True]


# --- GRES of older Slurm ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gres", "count", "model"),
    [
        ("gpu:2", 2, None),
        ("gpu:h100:4", 4, "h100"),
        ("gpu:volta:8(S:0-1)", 8, "volta"),
        ("gpu:nvidia_a100_1g.5gb:21(S:0-1)", 3, "nvidia_a100_1g.5gb"),
        ("gpu:(null):0(IDX:N/A)", 0, None),
        ("gpu:NVlink_A100_40GB:2(IDX:0,3)", 2, "NVlink_A100_40GB"),  # the comma is inside
        ("gpu:h100:2(IDX:0,3),gpu:a100:1(IDX:5)", 3, "a100+h100"),
        ("gpu:h100:1,shard:h100:2", 1, "h100"),
        ("gpu:h100:8,shard:h10", 8, "h100"),
        ("gpu::8", 8, None),
        ("gpu", 1, None),
        ("(null)", None, None),
    ],
)
def test_placements_are_counted_and_not_read_as_counts(gres: str, count: int | None, model: str | None) -> None:
    columns = ["JobID", "Submit", "Start", "End", "State", "NodeList", "AllocGRES", "ReqGRES", "Cluster", "User"]
    got = parse(text({"AllocGRES": gres, "ReqGRES": ""}, columns=columns)).frames["attempts"].row(0, named=True)
    assert (got["n_gpus"], got["gpu_model"], got["alloc_tres"]) == (count, model, gres if gres != "(null)" else None)


# --- memory asked for ---------------------------------------------------------------------------------


def memory(text: str, size: int | None, warned: str = "") -> Trap:
    return Trap(text or "none", {"ReqMem": text, "AllocCPUS": "8"}, {"req_mem_bytes": size}, warned)


UNREAD = "reqmem: 1 value could not be read"
MEMORY = [
    memory("3000Mc", 3000 * MIB * 8),
    memory("48000Mn", 48_000 * MIB * 2),
    memory("31000Mn", 31_000 * MIB * 2),
    memory("0n", 0),
    memory("1Gn", 2 * GIB),
    memory("7Gc", 56 * GIB),
    memory("1000M", 1000 * MIB),
    memory("1084.50M", int(1084.5 * MIB)),
    memory("62.50G", int(62.5 * GIB)),
    memory("320.5G", int(320.5 * GIB)),  # not 320
    memory("3T", 3 << 40),
    memory("0.5P", 1 << 49),
    memory("2P", 2 << 50),
    memory("4096", 4 * GIB),
    memory("2147486448Mn", None),  # 32-bit "not set" with a flag, no two petabytes per node
    memory("2147486648Mn", None),
    memory("2166393600M", 2166393600 * MIB),  # 64-bit Slurm writes no letter: 2,100 nodes of 1 TB
    memory("9223372036854775808M", None),
    memory("18446744073709551614M", None),
    memory("", None),
    memory("18GG", None, UNREAD),
    memory("16?", None, UNREAD),
    memory("16Gn?", None, UNREAD),
    memory("-1", None, UNREAD),
    memory("1,000M", None, UNREAD),
]


@pytest.mark.slow
@pytest.mark.parametrize("trap", traps(*MEMORY))
def test_requested_memory_is_the_jobs_in_bytes(trap: Trap) -> None:
    spring(trap)


def test_memory_per_core_of_unknown_cores_is_null_and_not_warned() -> None:
    spring(Trap("no cores", {"ReqMem": "4Gc", "AllocTRES": "gres/gpu=16"}, {"req_mem_bytes": None, "n_cpus": None}))


# --- time limits --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("column", ["Timelimit", "TimelimitRaw"])
@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("30", 1800.0),  # minutes
        ("1-00:00:00", 86_400.0),
        ("00:30:00", 1800.0),
        ("60:00", 3600.0),
        ("3-13", 306_000.0),
        ("365-00:00:00", 31_536_000.0),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INVALID", None),
        ("4294967295", None),
        ("4294967294", None),
        ("0", None),  # to ask for 0 is to ask for none
        ("", None),
    ],
)
def test_no_limit_is_null_and_a_number_is_minutes(column: str, limit: str, seconds: float | None) -> None:
    spring(Trap(limit, {column: limit}, {"time_limit_s": seconds}))


# --- counts -------------------------------------------------------------------------------------------

COUNTS = [
    Trap("scaled", {"Priority": "2K"}, {"priority": 2048}),
    Trap("scaled with a fraction", {"Priority": "1.5K"}, {"priority": 1536}),
    Trap("not set", {"Priority": "4294967295", "UID": "4294967294"}, {"priority": None, "uid": None}),
    Trap("not set in 64 bits", {"Priority": "18446744073709551614"}, {"priority": None}),
    Trap("rounded, so no longer a count", {"Priority": "1.23M"}, {"priority": None}, "priority: 1 value"),
    Trap("minus one", {"UID": "-1"}, {"uid": None}, "uid: 1 value"),
    Trap("a word", {"UID": "alice"}, {"uid": None}, "uid: 1 value"),
    Trap("not known", {**BARE, "Priority": "", "ReqCPUS": "Unknown"}, {"priority": None, "req_cpus": None}),
    Trap("another number of nodes", {"NNodes": "5"}, {"n_nodes": 2}, "another number of nodes"),
]


@pytest.mark.parametrize("trap", traps(*COUNTS))
def test_a_count_is_a_whole_number_or_null(trap: Trap) -> None:
    spring(trap)
