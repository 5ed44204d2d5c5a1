"""A run that is killed and resumed in the middle, as the newest frameworks print it, and what its loop knew."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAY: Final = datetime(2026, 10, 1)  # noqa: DTZ001 - frameworks print local times
STEP_S: Final = 2.0
SAVE_S: Final = 5.0


@dataclass
class Run:
    """What the loop knew, in seconds of the day.

    Attributes:
        starts: of its processes.
        steps: number and begin of each that a line stands for.
        saves: last step that it holds, begin and end.
        loads: the step and when it was loaded.
        lines: what it printed.
    """

    starts: list[float] = field(default_factory=list)
    steps: list[tuple[int, float]] = field(default_factory=list)
    saves: list[tuple[int, float, float]] = field(default_factory=list)
    loads: list[tuple[int, float]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Printer:
    """How a framework prints: its start, a step, a save; every how many steps it prints a line."""

    start: Callable[[float, int], Iterator[str]]
    step: Callable[[float, int], Iterator[str]]
    save: Callable[[float, float, int], Iterator[str]]
    every: int
    first: int = 1


def run_of(printer: Printer) -> Run:
    """Steps 1 to 57, killed; steps 41 to 90 from the checkpoint of step 40."""
    run = Run()
    for number, (since, first, last) in enumerate(((28_800.0, 1, 57), (29_400.0, 41, 90))):
        run.starts.append(since)
        run.lines += printer.start(since, first - 1)
        if number:
            run.loads.append((first - 1, since + 18))
        _train(run, printer, since + 20, first, last)
    return run


def _train(run: Run, printer: Printer, now: float, first: int, last: int) -> None:
    pending: list[tuple[int, float]] = []
    for step in range(first, last + 1):
        pending.append((step - 1 + printer.first, now))
        now += STEP_S
        run.lines += printer.step(now, step)
        if step % printer.every == 0:
            run.steps += pending
            pending = []
        if step % 20 == 0:
            run.lines += printer.save(now, now + SAVE_S, step)
            run.saves.append((step - 1 + printer.first, now, now + SAVE_S))
            now += SAVE_S


def at(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time of the day."""
    return (DAY + timedelta(seconds=seconds)).strftime(form)


def _megatron_start(now: float, done: int) -> Iterator[str]:
    yield "using world size: 64, data-parallel size: 16, tensor-model-parallel size: 4, pipeline-model-parallel size: 1"
    yield "------------------------ arguments ------------------------"
    yield "  seq_length ...................................... 4096"
    yield f"[after megatron is initialized] datetime: {at(now)} "
    if done:
        yield f" loading distributed checkpoint from /ckpt/llama at iteration {done}"
        yield f"  successfully loaded checkpoint from /ckpt/llama [ t 1/4, p 1/1 ] at iteration {done}"
    yield f"[before the start of training step] datetime: {at(now + 20)} "


def _megatron_step(now: float, step: int) -> Iterator[str]:
    if step % 5 == 0:
        yield (
            f" [{at(now)}.000000] iteration {step:8d}/    1000 | consumed samples: {step * 256:12d} | elapsed time per "
            "iteration (ms): 2000.0 | throughput per GPU (TFLOP/s/GPU): 412.3 | energy per GPU (J/iter/GPU): 812.1 | "
            "power per GPU (W/GPU): 651.2 | learning rate: 1.200000E-05 | global batch size:   256 | lm loss: "
            "7.345678E+00 | loss scale: 1.0 | grad norm: 2.345 | number of skipped iterations:   0 | number of nan "
            "iterations:   0 |"
        )


def _megatron_save(_: float, __: float, step: int) -> Iterator[str]:
    yield f"saving checkpoint at iteration {step:7d} to /ckpt/llama in torch_dist format"
    yield f"  successfully saved checkpoint from iteration {step:7d} to /ckpt/llama [ t 1/4, p 1/1 ]"
    yield f" validation loss at iteration {step} | lm loss value: 7.1E+00 | lm loss PPL: 1.2E+03 | "


def _nemo_start(now: float, done: int) -> Iterator[str]:
    yield "GPU available: True (cuda), used: True"
    yield f"[NeMo I {at(now)} nemo_logging:393] Experiments will be logged at /results/default"
    if done:
        yield "Restoring states from the checkpoint path at /results/m--reduced_train_loss=10.8-epoch=0-last"
        yield f"[NeMo I {at(now + 18)} nemo_logging:393] Restored all states from the checkpoint at /results/m-last"
    yield f"[NeMo I {at(now + 20)} nemo_logging:393] Setting up optimizers"


def _nemo_step(_: float, step: int) -> Iterator[str]:
    yield (
        f"Training epoch 0, iteration {step - 1}/99 | lr: 6.897e-06 | global_batch_size: 256 | global_step: {step - 1} "
        f"| max_memory_reserved: 127785762816 | reduced_train_loss: 7.345678 | train_step_timing in s: 2.0 | "
        f"TFLOPS_per_GPU: 4.249e+02 | consumed_samples: {step * 256}"
    )


def _nemo_save(begin: float, end: float, step: int) -> Iterator[str]:
    yield (
        f"[NeMo I {at(end)} nemo_logging:393] Global Checkpoint Save : Rank: 0 : Iteration: {step} : "
        f"Start time: 17{begin:.3f}s : Save duration: {end - begin:.3f}s"
    )
    yield f"[NeMo I {at(end)} nemo_logging:393] Successfully saved checkpoint from iteration {step:7d} to /results/m"


def _titan(now: float, text: str) -> str:
    return f"[titan] {at(now)},000 - root - INFO - {text}"


def _titan_start(now: float, done: int) -> Iterator[str]:
    yield _titan(now, "Starting job: Llama 3 8B training")
    yield _titan(now + 1, "Building 1-D device mesh with ['dp_shard'], [8]")
    yield _titan(now + 2, "Model llama3 8B \x1b[31msize: 8,030,261,248 total parameters\x1b[39m")
    yield _titan(now + 3, "Trainer is initialized with local batch size 1, global batch size 8, sequence length 8192")
    if done:
        yield _titan(now + 8, f"Loading the checkpoint from ./outputs/checkpoint/step-{done}.")
        yield _titan(now + 18, "Finished loading the checkpoint in 10.00 seconds.")
    yield _titan(now + 20, f"Training starts at step {done + 1}")


def _titan_step(now: float, step: int) -> Iterator[str]:
    if step == 1 or step % 10 == 0:
        yield _titan(
            now,
            f"\x1b[31mstep: {step:2}  \x1b[32mloss:  7.34568  \x1b[38;2;180;60;0mgrad_norm:  1.2345  "
            "\x1b[38;2;54;234;195mmemory: 24.10GiB(25.35%)  \x1b[34mtps: 4,096  \x1b[36mtflops: 211.81  "
            "\x1b[35mmfu: 21.42%\x1b[39m",
        )


def _titan_save(begin: float, end: float, _: int) -> Iterator[str]:
    yield _titan(begin, "Saving the checkpoint (or staging if async is enabled).")
    yield _titan(end, f"Finished saving the checkpoint (or staging if async is enabled)in {end - begin:.2f} seconds.")


def _deepspeed(now: float, where: str, text: str) -> str:
    return f"[{at(now)},000] [INFO] [{where}] {text}"


def _deepspeed_start(now: float, done: int) -> Iterator[str]:
    yield _deepspeed(now, "logging.py:107:log_dist", "[Rank 0] DeepSpeed info: version=0.18.2, git-hash=unknown")
    if done:
        text = f"[Torch] Loaded checkpoint from /ckpt/global_step{done}/mp_rank_00_model_states.pt."
        yield _deepspeed(now + 20, "torch_checkpoint_engine.py:35:load", text)


def _deepspeed_step(now: float, step: int) -> Iterator[str]:
    text = f"[Rank 0] step={step}, skipped=0, lr=[1.2e-05], mom=[(0.9, 0.95)]"
    yield _deepspeed(now, "logging.py:107:log_dist", text)
    rate = f"epoch=0/micro_step={step * 4}/global_step={step}, RunningAvgSamplesPerSec=128.1, CurrSamplesPerSec=128.0"
    yield _deepspeed(now, "timer.py:264:stop", rate)


def _deepspeed_save(begin: float, end: float, step: int) -> Iterator[str]:
    where = "torch_checkpoint_engine.py:54:commit"
    yield _deepspeed(begin, where, f"[Torch] Checkpoint global_step{step} is about to be saved!")
    yield _deepspeed(end, where, f"[Torch] Checkpoint global_step{step} is ready now!")


def _trainer(now: float, text: str) -> str:
    return f"[INFO|trainer.py:2519] {at(now)},000 >> {text}"


def _bar(step: int, seconds: int) -> str:
    return f"\r {step:2}%|███       | {step}/100 [{seconds // 60:02}:{seconds % 60:02}<01:00,  2.00s/it]"


class _TrainerBar:
    """The progress bar counts from where the loop began."""

    began = 0.0

    def start(self, now: float, done: int) -> Iterator[str]:
        self.began = now + 20
        yield _trainer(now, "***** Running training *****")
        if done:
            yield _trainer(now + 18, "  Continuing training from checkpoint, will skip to saved global_step")
            yield _trainer(now + 18, f"  Continuing training from global step {done}")
        yield _trainer(now + 20, "  Number of trainable parameters = 8,030,261,248")
        yield _bar(0, 0)

    def step(self, now: float, step: int) -> Iterator[str]:
        bar = _bar(step, round(now - self.began))
        yield bar
        if step % 10 == 0:
            yield (
                "\r" + " " * 60 + "\r{'loss': '7.345678', 'grad_norm': '0.5', 'learning_rate': '1e-05', 'epoch': '0.2'}"
            )
            yield bar

    @staticmethod
    def save(begin: float, end: float, step: int) -> Iterator[str]:
        yield _trainer(begin, f"Saving model checkpoint to /out/checkpoint-{step}")
        yield _trainer(end, f"tokenizer config file saved in /out/checkpoint-{step}/tokenizer_config.json")


_TRAINER: Final = _TrainerBar()

PRINTERS: Final = {
    "megatron": Printer(_megatron_start, _megatron_step, _megatron_save, 5),
    "nemo": Printer(_nemo_start, _nemo_step, _nemo_save, 1, first=0),
    "torchtitan": Printer(_titan_start, _titan_step, _titan_save, 10),
    "deepspeed": Printer(_deepspeed_start, _deepspeed_step, _deepspeed_save, 1),
    "transformers": Printer(_TRAINER.start, _TRAINER.step, _TRAINER.save, 10),
}
