"""Run log v1 recorder: copy this one file beside your training script. Standard library only, Python 3.8 or later.

    import trackside_log

    log = trackside_log.start("run.jsonl", run_id="llama-8b", n_gpus=16, gpu_model="H100 SXM", dtype="bf16",
                              params_active=8.03e9, layers=32, heads=32, head_dim=128, seq_len=8192,
                              recompute="none")   # none, selective or full: HFU beside MFU
    with log.event("checkpoint_load", step=first):
        load(first)
    for step in range(first, last):
        with log.step(step, tokens=batch_tokens) as this:
            this.loss = train()          # a number; optional
        if step % 500 == 0:
            with log.checkpoint(step):   # training waits for it, and it is safe at the end
                save(step)
    log.close()

A save that goes on in the background is safe only once that is confirmed:

    with log.checkpoint_async(step) as saving:   # what training waits for
        future = begin_save(step)
    future.add_done_callback(lambda _: saving.durable())

Hugging Face's Trainer and Lightning need no loop of your own:

    Trainer(..., callbacks=[trackside_log.hugging_face(log)])     # transformers
    Trainer(..., callbacks=[trackside_log.lightning(log)])        # lightning, or pytorch_lightning

To find slow ranks, record how long each computes and waits for others: every rank calls `rank_times`.

It is made for training loops: whatever happens to the log (a full disk, a missing folder), it warns once on stderr and
training goes on. A line is written by one system call, so a killed process leaves at most one cut line. Only rank 0
writes. The rank comes from RANK or SLURM_PROCID; if neither torchrun nor srun starts your processes, pass `rank=`.
Where another rank should write (with pipeline parallelism the last one has the loss), pass `rank=0` there and
`rank=1` elsewhere. A loss is turned into a number at the end of the step: one that lies on the GPU makes the step wait
for it, so leave it out, or set it every so many steps.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import operator
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: UP035 - of Python 3.8

VERSION = 1
"""Of the format; Trackside's `ingest/runlog/parse.py` describes it."""

START_LOGGED_S = 1.0
"""The begin of a step is logged, too, if the step before took so many seconds (and of the first one)."""


def start(
    path: str | os.PathLike[str],
    *,
    run_id: str,
    n_gpus: int | None = None,
    gpu_model: str | None = None,
    dtype: str | None = None,
    params: float | None = None,
    params_active: float | None = None,
    layers: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    seq_len: int | None = None,
    flops_per_token: float | None = None,
    flop_convention: str | None = None,
    hidden: int | None = None,
    ffn_hidden: int | None = None,
    kv_heads: int | None = None,
    vocab: int | None = None,
    gated: bool | None = None,
    tied: bool | None = None,
    attention_layers: int | None = None,
    experts: int | None = None,
    top_k: int | None = None,
    shared_experts: int | None = None,
    expert_ffn_hidden: int | None = None,
    expert_layers: int | None = None,
    expert_params: float | None = None,
    recompute: str | None = None,
    recipe: str | None = None,
    global_batch: float | None = None,
    learning_rate: float | None = None,
    tensor_parallel: int | None = None,
    pipeline_parallel: int | None = None,
    data_parallel: int | None = None,
    context_parallel: int | None = None,
    expert_parallel: int | None = None,
    cluster: str | None = None,
    scheduler: str | None = None,
    job_id: str | None = None,
    restart_count: int | None = None,
    node: str | None = None,
    rank: int | None = None,
    world: int | None = None,
) -> Log:
    """Begin a session: open the log for appending and write its `run` line. Call it first thing, before init.

    Args:
        path: the log; restarts of the run append to the same file, or use one each.
        run_id: name of the logical run, the same after every restart.
        n_gpus: GPUs that train.
        gpu_model: as `nvidia-smi -L` or torch.cuda.get_device_name names it.
        dtype: data type of the matrix products: bf16, fp16, fp8, ... (several: fp8+bf16).
        params: parameters of the model.
        params_active: parameters active per token, where that differs (mixture of experts).
        layers: its layers.
        heads: attention heads.
        head_dim: size of a head.
        seq_len: sequence length.
        flops_per_token: FLOP per token, if you count them yourself.
        flop_convention: how you count them.
        hidden: width of the model; this and the following allow more FLOP conventions (Megatron's, torchtitan's).
        ffn_hidden: width of the MLP.
        kv_heads: attention heads of keys and values.
        vocab: size of the vocabulary, with its padding.
        gated: whether the MLP has a gate (SwiGLU).
        tied: whether the input embedding is the output's.
        attention_layers: layers with full attention, where those are not all (hybrid models).
        experts: routed experts of a layer (mixture of experts).
        top_k: routed experts that a token is sent to.
        shared_experts: experts that every token goes through.
        expert_ffn_hidden: width of an expert, where it is not ffn_hidden.
        expert_layers: layers with experts, where those are not all.
        expert_params: parameters of all routed experts of all layers; with `params` the active ones follow.
        recompute: what the backward pass computes again: none, selective or full (activation checkpointing).
        recipe: name of how the model is trained; runs of one recipe are compared.
        global_batch: samples of a step on all GPUs together.
        learning_rate: the peak of its schedule.
        tensor_parallel: GPUs that share a layer; this and the following are the sizes of the parallel groups.
        pipeline_parallel: stages.
        data_parallel: copies of the model.
        context_parallel: GPUs that share a sequence.
        expert_parallel: GPUs that share the experts of a layer.
        cluster: Slurm's name of the cluster (SLURM_CLUSTER_NAME).
        scheduler: what started the job: slurm (where SLURM_JOB_ID is set), kubernetes (in a pod), ...
        job_id: the scheduler's raw id (SLURM_JOB_ID).
        restart_count: how often the scheduler had restarted the job (SLURM_RESTART_COUNT).
        node: this host.
        rank: of this process (RANK, SLURM_PROCID); only rank 0 writes.
        world: number of ranks (WORLD_SIZE, SLURM_NTASKS).

    Returns:
        The log. On other ranks than 0 it takes everything and writes nothing. So does the log on rank 0 if an
        argument cannot even be made into text; it then warns.
    """
    stated = dict(locals())
    try:
        return _started(**stated)
    except Exception as error:  # noqa: BLE001 - training must begin, whatever its objects do when they are looked at
        return Log(path, error)


def _started(path: str | os.PathLike[str], run_id: str, **stated: object) -> Log:
    """What `start` does, if nothing goes wrong."""
    process = _process(stated)
    log = Log(path if process["rank"] == 0 else None)
    began = round(time.time(), 6)
    log.write(
        {
            "type": "run",
            "v": VERSION,
            "t": began,
            "run_id": str(run_id),
            **process,
            "world": _whole_number(
                _first(stated["world"], os.environ.get("WORLD_SIZE"), os.environ.get("SLURM_NTASKS"))
            ),
            "gpu_model": _text(stated["gpu_model"]),
            "n_gpus": _whole_number(stated["n_gpus"]),
            "dtype": _text(stated["dtype"]),
            "params": _number(stated["params"]),
            "params_active": _number(stated["params_active"]),
            "layers": _whole_number(stated["layers"]),
            "heads": _whole_number(stated["heads"]),
            "head_dim": _whole_number(stated["head_dim"]),
            "seq_len": _whole_number(stated["seq_len"]),
            "flops_per_token": _number(stated["flops_per_token"]),
            "flop_convention": _text(stated["flop_convention"]),
            **{name: _whole_number(stated[name]) for name in _WIDTHS if stated[name] is not None},
            **{name: bool(stated[name]) for name in ("gated", "tied") if stated[name] is not None},
            **{name: _number(stated[name]) for name in ("expert_params",) if stated[name] is not None},
            **{name: _text(stated[name]) for name in ("recompute", "recipe") if stated[name] is not None},
            **{name: _number(stated[name]) for name in ("global_batch", "learning_rate") if stated[name] is not None},
            **{name: os.environ[variable] for name, variable in _IDS if os.environ.get(variable)},
        }
    )
    driver = _driver()
    if driver:
        log.write({"type": "event", "kind": "driver", "begin": began, "end": began, "detail": driver})
    return log


_DRIVERS = ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version")
"""Where the kernel shows the version of the GPUs' driver."""


def _driver() -> str | None:
    """Version of the GPUs' driver; None where there is none."""
    for path in _DRIVERS:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - one small file
                words = file.read(4096).rpartition("Kernel Module")[2].split()
        except (OSError, ValueError):
            continue
        versions = [word for word in words if word[0].isdigit() and "." in word]
        if versions:
            return versions[0]
    return None


def _process(stated: dict[str, object]) -> dict[str, object]:
    """Where this process runs: as stated, else from the environment."""
    slurm_job = os.environ.get("SLURM_JOB_ID")
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")  # Slurm sets it from the first restart on
    pods = "KUBERNETES_SERVICE_HOST" in os.environ
    return {
        "cluster": _text(_first(stated["cluster"], os.environ.get("SLURM_CLUSTER_NAME"))),
        "scheduler": _text(_first(stated["scheduler"], "slurm" if slurm_job else "kubernetes" if pods else None)),
        "job_id": _text(_first(stated["job_id"], slurm_job)),
        "restart_count": _whole_number(_first(stated["restart_count"], restarts if slurm_job else None)),
        "node": _text(_first(stated["node"], os.environ.get("SLURMD_NODENAME"), socket.gethostname())),
        "rank": _whole_number(_first(stated["rank"], os.environ.get("RANK"), os.environ.get("SLURM_PROCID"))) or 0,
    }


_WIDTHS = (
    "hidden",
    "ffn_hidden",
    "kv_heads",
    "vocab",
    "attention_layers",
    "experts",
    "top_k",
    "shared_experts",
    "expert_ffn_hidden",
    "expert_layers",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
)
"""Whole numbers that are written only if they are stated."""

_IDS = (
    ("wandb_run_id", "WANDB_RUN_ID"),
    ("pod", "POD_NAME"),
    ("pod_namespace", "POD_NAMESPACE"),
    ("pod_uid", "POD_UID"),
)
"""Ids of W&B and Kubernetes (the downward API's usual names), with the variables that they come from."""


_CUT = "a line was cut; is the disk full?"

_STEP_LINE = b'{"type":"step","step":%d,"t":%.6f,"duration_s":%.6f,"tokens":%s,"loss":%s}\n'
_wall, _tick, _write = time.time, time.perf_counter, os.write

_WHOLE_LINE = _STEP_LINE.replace(b'"tokens":%s,"loss":%s', b'"tokens":%d,"loss":%.9g')


def rank_times(
    path: str | os.PathLike[str],
    *,
    run_id: str,
    every: int = 100,
    stage: int | None = None,
    cluster: str | None = None,
    scheduler: str | None = None,
    job_id: str | None = None,
    restart_count: int | None = None,
    node: str | None = None,
    rank: int | None = None,
    local_rank: int | None = None,
) -> RankTimes:
    """Record what this rank computes and how long it waits: every rank calls it, and each node has a file of its own.

    Wall time of a step is the same on all ranks, since they wait for the slowest; seconds of computation are not, and
    distinguish a slow node from an unevenly cut job (`trackside ingest ranks FILE...`, `trackside show stragglers`).

        times = trackside_log.rank_times("logs/ranks", run_id="llama-8b")      # logs/ranks.NODE.jsonl
        for step in range(first, last):
            with times.compute(step):    # until the first collective that blocks
                loss = forward_and_backward()
            with times.wait(step):
                reduce_gradients()

    A GPU works on after Python has gone on: measure with CUDA events there, and pass seconds to `times.add`.

    Args:
        path: of the files, without node and ending.
        run_id: as for `start`.
        every: steps that a line sums up.
        stage: pipeline stage of this rank, where the job has stages.
        cluster: as for `start`, and so the following.
        scheduler: what started the job.
        job_id: the scheduler's raw id.
        restart_count: how often the scheduler had restarted the job.
        node: this host.
        rank: of this process (RANK, SLURM_PROCID).
        local_rank: its number on this node (LOCAL_RANK, SLURM_LOCALID).
    """
    stated = dict(locals())
    try:
        facts = {
            "run_id": str(run_id),
            **_process(stated),
            "local_rank": _whole_number(
                _first(local_rank, os.environ.get("LOCAL_RANK"), os.environ.get("SLURM_LOCALID"))
            ),
            "stage": _whole_number(stage),
        }
        log = Log(f"{os.fspath(path)}.{facts['node']}.jsonl")
        return RankTimes(log, facts, max(1, _whole_number(every) or 1))
    except Exception as error:  # noqa: BLE001 - training must begin, whatever its objects do when they are looked at
        return RankTimes(Log(path, error), {}, 1)


class Log:
    """A session's log. Every method is safe in a training loop: none raises, except for what your own code raises."""

    def __init__(self, path: str | os.PathLike[str] | None, problem: Exception | None = None) -> None:
        """Open the log; a `problem` is reported, and nothing is ever written."""
        self._path: object = path
        self._fd = -1
        self._torn = False
        self._took = math.inf  # the last step; infinite before the first
        self._warned = path is None and problem is None  # only rank 0 writes
        if problem is not None:
            self._warn(problem)
        if path is None or problem is not None:
            return
        try:
            folder = os.path.dirname(os.fspath(path))  # noqa: PTH120 - paths may be bytes or text here
            if folder:
                os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
            self._torn = _ends_within_a_line(path)  # the process before this one was killed while writing
        except Exception as error:  # noqa: BLE001 - a path may be any object
            self._warn(error)

    def step(self, step: int, tokens: float | None = None, loss: float | None = None) -> _StepTimer:
        """Time one training step: `with log.step(17, tokens=1048576):`. If its body raises, the step is not logged."""
        return _StepTimer(self, step, tokens, loss)

    def record_step(
        self,
        step: int,
        begin: float,
        duration_s: float | None = None,
        tokens: float | None = None,
        loss: float | None = None,
    ) -> None:
        """Log a step that you timed yourself; `begin` is in seconds since 1970 (time.time()).

        Plain values are written fast: the text of a float costs most, and has the digits that it needs.
        """
        plain = type(step) is int and (tokens is None or type(tokens) is int)
        if plain and type(begin) is float and type(duration_s) is float and 1.0 <= begin < 1e15 > duration_s >= 0.0:
            self._write_step(step, begin, duration_s, tokens, loss)
            return
        whole, began = _whole_number(step), _number(begin)
        if whole is None or began is None:
            self._warn(f"step {_safe(step)} that began at {_safe(begin)}: a whole number and a time are needed")
            return
        self.write(
            {
                "type": "step",
                "step": whole,
                "t": round(began, 6),
                "duration_s": _second(duration_s),
                "tokens": _number(tokens),
                "loss": _number(loss),
            }
        )

    def _write_step(self, step: int, begin: float, duration_s: float, tokens: float | None, loss: object) -> None:
        """Write the line of a step whose values but the loss are plain. It is on the path that costs most."""
        try:
            if tokens is not None and type(loss) is float and loss - loss == 0.0:
                data = _WHOLE_LINE % (step, begin, duration_s, tokens, loss)
            else:
                count = b"null" if tokens is None else b"%d" % tokens
                data = _STEP_LINE % (step, begin, duration_s, count, b"null" if loss is None else _json(loss))
            if self._fd < 0 or self._torn:
                self._append(data.decode())
                return
            self._torn = _write(self._fd, data) != len(data)
            if self._torn:
                self._warn(_CUT)
        except Exception as error:  # noqa: BLE001 - more digits than Python writes, or a disk that is full
            self._warn(error)

    def checkpoint(self, step: int) -> _Checkpoint:
        """Time a save that training waits for: `with log.checkpoint(17): save()`. It counts as safe at the end.

        If its body raises, the time counts as spent, and the checkpoint as not made.
        """
        return _Checkpoint(self, step, safe_at_end=True)

    def checkpoint_async(self, step: int) -> _Checkpoint:
        """A save that goes on in the background; it counts as safe from when you call `durable()` on what this returns.

        Use it as a context manager around the part that training waits for, if there is one.
        """
        return _Checkpoint(self, step, safe_at_end=False)

    def record_checkpoint(
        self, step: int, begin: float, end: float, durable: object = None, *, blocking: bool = True
    ) -> None:
        """Log a save that you timed yourself; `durable` is since when it is safe, None while that is not known."""
        self.write(
            {
                "type": "ckpt",
                "step": _whole_number(step),
                "begin": _second(begin),
                "end": _second(end),
                "durable": True if durable is True else _second(durable),
                "blocking": blocking,
            }
        )

    def event(self, kind: str, step: int | None = None, detail: str | None = None) -> _EventTimer:
        """Time something else than steps: `with log.event("eval"):`. A body that raises has taken its time too.

        Kinds with a meaning: init, compile, data (waiting for data), checkpoint_load (with `step`), eval; others are
        kept as they are.
        """
        return _EventTimer(self, kind, step, detail)

    def record_event(
        self, kind: str, begin: float, end: float, step: int | None = None, detail: str | None = None
    ) -> None:
        """Log an event that you timed yourself."""
        self.write(
            {
                "type": "event",
                "kind": _safe(kind),
                "begin": _second(begin),
                "end": _second(end),
                "step": _whole_number(step),
                "detail": None if detail is None else _safe(detail),
            }
        )

    def _begin_step(self, step: int, begin: float) -> None:
        """Log that a step begins: what is under way when the log is read, or the process killed, is known by that.

        Where steps are short it is left out: their ends give nearly the same times.
        """
        whole, began = _whole_number(step), round(begin, 6)
        self.write({"type": "event", "kind": "step_start", "begin": began, "step": whole})

    def write(self, line: dict[str, object]) -> None:
        """Append one line: one system call, whole or not at all (bar a kill or a full disk in the middle of it)."""
        try:
            text = json.dumps(line, separators=(",", ":"), allow_nan=False) if self._fd >= 0 else ""
        except Exception as error:  # noqa: BLE001 - nothing that is in a line may stop training
            self._warn(error)
        else:
            self._append(text + "\n")

    def _append(self, text: str) -> None:
        """Append a line."""
        if self._fd < 0:
            if not self._warned:
                self._warn("it is closed")
            return
        try:
            data = text.encode()
            if self._torn:
                data = b"\n" + data
            self._torn = _write(self._fd, data) != len(data)
            if self._torn:
                self._warn(_CUT)
        except Exception as error:  # noqa: BLE001 - a disk that is full or gone must not stop training
            self._warn(error)

    def close(self) -> None:
        """Close the file. A log that is never closed loses nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                self._warn(error)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warn(self, problem: object) -> None:
        """Warn once what is wrong; a training job's output must not fill with it."""
        if self._warned:
            return
        self._warned = True
        where, what = _safe(self._path), _safe(problem)
        try:
            sys.stderr.write(f"trackside_log: {where}: {what}. Training goes on; the run log will lack lines.\n")
        except Exception:  # noqa: BLE001 - there is no stderr (any more), or a replaced one that raises
            return


class RankTimes:
    """Seconds of this rank, summed up over `every` steps. No method raises, except for what your own code raises."""

    def __init__(self, log: Log, facts: dict[str, object], every: int) -> None:
        """Begin without a step."""
        self._log, self._facts, self._every = log, facts, every
        self._first, self._last, self._steps = 0, 0, 0
        self._began, self._ended, self._compute_s = 0.0, 0.0, 0.0
        self._wait_s: float | None = None

    def compute(self, step: int) -> _Timed:
        """Time computation of a step: `with times.compute(17):`."""
        return _Timed(self, step, "compute_s")

    def wait(self, step: int) -> _Timed:
        """Time waiting for other ranks: `with times.wait(17):`."""
        return _Timed(self, step, "wait_s")

    def add(self, step: int, compute_s: float | None = None, wait_s: float | None = None) -> None:
        """Add seconds that you measured yourself, when they are over."""
        number = _whole_number(step)
        if number is None:
            self._log._warn(f"step {_safe(step)}: a whole number is needed")
            return
        computed, waited = _number(compute_s) or 0.0, _number(wait_s)
        now = time.time()
        if self._steps and number // self._every != self._last // self._every:
            self.flush()
        if not self._steps:
            self._first, self._began = number, now - computed - (waited or 0.0)
        if number != self._last or not self._steps:
            self._steps, self._last = self._steps + 1, number
        self._ended = now
        self._compute_s += computed
        if waited is not None:
            self._wait_s = (self._wait_s or 0.0) + waited

    def flush(self) -> None:
        """Write the line of the steps so far."""
        if self._steps:
            self._log.write(
                {
                    "type": "rank_steps",
                    "v": VERSION,
                    "t": round(self._began, 6),
                    "end": round(max(self._began, self._ended), 6),
                    **self._facts,
                    "step": self._first,
                    "steps": self._steps,
                    "compute_s": round(self._compute_s, 6),
                    "wait_s": _second(self._wait_s),
                }
            )
        self._steps, self._compute_s, self._wait_s = 0, 0.0, None

    def close(self) -> None:
        """Write what is left, and close the file; without it the last steps are missing, fewer than `every`."""
        self.flush()
        self._log.close()

    def __enter__(self) -> RankTimes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Timed:
    """Seconds of a step being timed."""

    __slots__ = ("_clock", "_name", "_step", "_times")

    def __init__(self, times: RankTimes, step: int, name: str) -> None:
        self._times, self._step, self._name = times, step, name

    def __enter__(self) -> _Timed:
        self._clock = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._times.add(self._step, **{self._name: time.perf_counter() - self._clock})


class _StepTimer:
    """A step being timed; `loss` and `tokens` may be set inside."""

    __slots__ = ("_began", "_clock", "_log", "_number", "loss", "tokens")

    def __init__(self, log: Log, number: int, tokens: float | None, loss: float | None) -> None:
        self._log = log
        self._number = number
        self.tokens = tokens
        self.loss = loss

    def __enter__(self) -> _StepTimer:
        began = self._began = _wall()
        if self._log._took >= START_LOGGED_S:
            self._log._begin_step(self._number, began)
        self._clock = _tick()
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        if kind is None:
            log, step, tokens = self._log, self._number, self.tokens
            log._took = took = _tick() - self._clock
            if type(step) is int and (tokens is None or type(tokens) is int):
                log._write_step(step, self._began, took, tokens, self.loss)
            else:
                log.record_step(step, self._began, took, tokens, self.loss)


class _Timer:
    """Something being timed from its making, or from `with`, on."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._restart()

    def _restart(self) -> None:
        self._began = time.time()
        self._clock = time.perf_counter()

    def _now(self) -> float:
        """The time, by a clock that is never set."""
        return self._began + (time.perf_counter() - self._clock)


class _EventTimer(_Timer):
    """An event being timed."""

    def __init__(self, log: Log, kind: str, step: int | None, detail: str | None) -> None:
        super().__init__(log)
        self._kind, self._step, self._detail = kind, step, detail

    def __enter__(self) -> _EventTimer:
        self._restart()
        return self

    def __exit__(self, *_: object) -> None:
        self._log.record_event(self._kind, self._began, self._now(), self._step, self._detail)


class _Checkpoint(_Timer):
    """A save being timed."""

    def __init__(self, log: Log, step: int, *, safe_at_end: bool) -> None:
        super().__init__(log)
        self._step, self._safe_at_end = step, safe_at_end
        self._end: float | None = None  # of the part that training waited for
        self._failed = False

    def __enter__(self) -> _Checkpoint:
        self._restart()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end = self._now()
        self._failed = kind is not None
        safe = self._safe_at_end and not self._failed
        self._log.record_checkpoint(self._step, self._began, self._end, self._end if safe else None)

    def durable(self) -> None:
        """Record that the checkpoint is safe now. From any thread; after a body that raised it does nothing."""
        if self._failed:
            return
        now = self._now()
        end = now if self._end is None else self._end
        self._log.record_checkpoint(self._step, self._began, end, now, blocking=self._end is not None)


def hugging_face(log: Log, *, tokens: float | None = None) -> object:
    """A callback for Hugging Face's Trainer: `Trainer(..., callbacks=[trackside_log.hugging_face(log)])`.

    It logs optimizer steps, evaluations and saves. A save is timed from the callback before it, and counts as safe when
    the Trainer reports that it is made. `tokens` are those of a step; without it they come from the Trainer, where it
    counts them (include_num_input_tokens_seen).
    """
    base = importlib.import_module("transformers").TrainerCallback
    return type("TracksideCallback", (_HuggingFace, base), {})(log, tokens)


def lightning(log: Log, *, tokens: float | None = None, loss_every: int = 50) -> object:
    """A callback for Lightning: `Trainer(..., callbacks=[trackside_log.lightning(log)])`.

    It logs optimizer steps, validations and saves. The loss is read every `loss_every` steps: reading it waits for
    the GPU.
    """
    try:
        base = importlib.import_module("lightning.pytorch").Callback
    except ImportError:
        base = importlib.import_module("pytorch_lightning").Callback
    return type("TracksideCallback", (_Lightning, base), {})(log, tokens, loss_every)


def _safely(hook: Callable[..., None]) -> Callable[..., None]:
    """A hook that never raises: it is called within a training loop."""

    @functools.wraps(hook)
    def called(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - of a version that names something differently, for one
            self._log._warn(error)

    return called


class _HuggingFace:
    """Hooks of Hugging Face's Trainer."""

    def __init__(self, log: Log, tokens: float | None) -> None:
        super().__init__()
        self._log, self._tokens = log, tokens
        self._step: _StepTimer | None = None
        self._seen = 0.0
        self._last = _Timer(log)  # since the last thing that was logged

    @_safely
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._step = self._log.step(state.global_step + 1, self._tokens).__enter__()

    @_safely
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step, self._step = self._step, None
        seen = float(getattr(state, "num_input_tokens_seen", 0) or 0)
        if step is not None:
            if self._tokens is None and seen > self._seen:
                step.tokens = seen - self._seen
            step.__exit__(None)
        self._ended, self._seen = step, seen
        self._last = _Timer(self._log)

    @_safely
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        step, loss = getattr(self, "_ended", None), (logs or {}).get("loss")
        if step is not None and loss is not None:  # the step again, now with its loss: read, it is one
            self._log.record_step(step._number, step._began, self._log._took, step.tokens, loss)
            self._ended = None

    @_safely
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._log.record_event("eval", self._last._began, self._last._now(), state.global_step)
        self._last = _Timer(self._log)

    @_safely
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        end = self._last._now()
        self._log.record_checkpoint(state.global_step, self._last._began, end, end)
        self._last = _Timer(self._log)


class _Lightning:
    """Hooks of Lightning's Trainer."""

    def __init__(self, log: Log, tokens: float | None, loss_every: int) -> None:
        super().__init__()
        self._log, self._tokens, self._loss_every = log, tokens, loss_every
        self._step: _StepTimer | None = None
        self._eval: _EventTimer | None = None

    @_safely
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        save = trainer.save_checkpoint

        @functools.wraps(save)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._log.checkpoint(trainer.global_step):
                return save(*args, **kwargs)

        trainer.save_checkpoint = timed

    @_safely
    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self._step is None:  # else batches are accumulated
            self._step = self._log.step(trainer.global_step + 1, self._tokens).__enter__()

    @_safely
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any = None, *_: Any, **__: Any) -> None:
        step = self._step
        if step is None or trainer.global_step < step._number:
            return
        self._step = None
        if self._loss_every and trainer.global_step % self._loss_every == 0:
            step.loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        step.__exit__(None)

    @_safely
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._eval = self._log.event("eval", trainer.global_step)

    @_safely
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._eval is not None:
            self._eval.__exit__()
            self._eval = None


def _first(*values: object) -> object:
    """The first value that is there."""
    return next((value for value in values if value is not None and value != ""), None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _safe(value: object) -> str:
    """Text, also of what cannot be made into any."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - its own code, which may do anything
        return "something without a name (" + type(value).__name__ + ")"


def _number(value: object) -> float | None:
    """A finite number, from whatever can be one; None for the rest (a loss that has become NaN, for one)."""
    if type(value) is int:  # nearly always
        return value
    try:
        found = float(value)  # type: ignore[arg-type]  # what cannot be a number raises
    except Exception:  # noqa: BLE001 - a tensor's own code, on a device that may be gone
        return None
    return found if math.isfinite(found) else None


def _second(value: object) -> float | None:
    found = _number(value)
    return None if found is None else round(found, 6)


def _json(value: object) -> bytes:
    """A number as JSON, from whatever can be one."""
    return json.dumps(_number(value)).encode()


def _whole_number(value: object) -> int | None:
    """A whole number, from whatever can be one (text from the environment, a one-element array)."""
    if type(value) is int:  # nearly always
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what is none raises
    except Exception:  # noqa: BLE001 - as above
        found = _number(value)
        return None if found is None or found != int(found) else int(found)


def _ends_within_a_line(path: str | os.PathLike[str]) -> bool:
    """Whether the file's last line was cut."""
    if os.path.getsize(path) == 0:  # noqa: PTH202 - paths may be bytes or text here
        return False
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
