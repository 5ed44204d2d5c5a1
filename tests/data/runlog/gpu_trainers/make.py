"""Makes the fixtures of this folder: three real training loops on one GPU, each killed with -9 and resumed.

    python make.py OUT      # on a machine with an NVIDIA GPU, torch, transformers and lightning; three minutes

- `loop`: a transformer of 871 M parameters in bf16 with the recorder, and the rate of matrix products (`rate.json`).
- `trainer`: Hugging Face's Trainer with a tiny GPT-2, its stdout (`trainer.log`), `trainer_state.json`, and the
  recorder's callback.
- `lightning`: Lightning with its CSVLogger, and the recorder's callback.

The files here were made by a shorter form of this script, on one H100 80GB HBM3 (driver 580.159.04) on 2026-11-27:
torch 2.11.0, transformers 5.17.0, lightning 2.6. `truth.json` has what each process knew: number, begin
and end of every step.
"""

# mypy: disable-error-code="name-defined, misc"
# ruff: noqa: T201, TID251 - a script, run by the Python of another environment, whose packages have no types here

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

RECORDER = Path(__file__).parents[4] / "ingest" / "runlog" / "recorder"
KILLED = {"loop": 55, "trainer": 70, "lightning": 70}
LAST = {"loop": 89, "trainer": 120, "lightning": 120}
LAYERS, HEADS, HIDDEN, VOCABULARY, SEQUENCE, BATCH = 16, 16, 2048, 32_000, 2_048, 8


class Truth:
    """What a process knows of its steps; it is killed behind its last one."""

    def __init__(self, out: Path, what: str, *, resumed: bool) -> None:
        self.path = out / f"{what}-{'second' if resumed else 'first'}.json"
        self.last = LAST[what] if resumed else KILLED[what]
        self.steps: list[tuple[int, float, float]] = []

    def ended(self, step: int, began: float) -> None:
        self.steps.append((step, began, time.time()))
        if step == self.last:
            self.path.write_text(json.dumps(self.steps))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def recorder(out: Path, run_id: str, **facts: Any) -> tuple[Any, Any]:
    sys.path.insert(0, str(RECORDER))
    gpu = import_module("torch").cuda.get_device_name()
    log = import_module("trackside_log")
    path = out / f"{run_id}.jsonl"
    return log, log.start(path, run_id=run_id, n_gpus=1, gpu_model=gpu, dtype="bf16", recompute="none", **facts)


def matmul_rate(rows: int, inner: int, columns: int) -> float:
    """TFLOP/s of products of bf16 matrices."""
    torch = import_module("torch")
    left = torch.randn(rows, inner, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(inner, columns, device="cuda", dtype=torch.bfloat16)
    began = 0.0
    for number in range(23):
        if number == 3:
            torch.cuda.synchronize()
            began = time.time()
        left @ right
    torch.cuda.synchronize()
    return 2 * rows * inner * columns * 20 / (time.time() - began) / 1e12


def model() -> Any:
    """A transformer without gates, its embedding tied."""
    torch = import_module("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
            self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
            self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

        def forward(self, x: Any) -> Any:
            qkv = self.qkv(functional.rms_norm(x, (HIDDEN,)))
            q, k, v = qkv.view(BATCH, SEQUENCE, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
            core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(core.transpose(1, 2).reshape(BATCH, SEQUENCE, HIDDEN))
            return x + self.down(functional.gelu(self.up(functional.rms_norm(x, (HIDDEN,)))))

    blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
    return nn.ModuleList([nn.Embedding(VOCABULARY, HIDDEN), blocks]).to("cuda").bfloat16()


def loop(out: Path, *, resumed: bool) -> None:
    torch = import_module("torch")
    functional = torch.nn.functional
    embedding, blocks = both = model()
    n_params = sum(each.numel() for each in both.parameters())
    if not resumed:
        rates = {"square": matmul_rate(8192, 8192, 8192), "mlp": matmul_rate(BATCH * SEQUENCE, HIDDEN, 4 * HIDDEN)}
        (out / "rate.json").write_text(json.dumps({"torch": torch.__version__, "params": n_params, "tflops": rates}))
    optimizer = torch.optim.AdamW(both.parameters(), 1e-4, fused=True)
    _, log = recorder(
        out, "loop", params=n_params, layers=LAYERS, heads=HEADS, head_dim=HIDDEN // HEADS, seq_len=SEQUENCE,
        hidden=HIDDEN, ffn_hidden=4 * HIDDEN, vocab=VOCABULARY, gated=False, tied=True, global_batch=BATCH,
    )  # fmt: skip
    saved, first = out / "loop.pt", 0
    if resumed:
        with log.event("checkpoint_load", step=40):
            weights, state = torch.load(saved)
            both.load_state_dict(weights)
            optimizer.load_state_dict(state)
        first = 41
    truth = Truth(out, "loop", resumed=resumed)
    for number in range(first, LAST["loop"] + 1):
        began = time.time()
        with log.step(number, tokens=BATCH * SEQUENCE) as step:
            tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), device="cuda")
            hidden = functional.rms_norm(blocks(embedding(tokens[:, :-1])), (HIDDEN,))
            logits = (hidden @ embedding.weight.t()).view(-1, VOCABULARY).float()
            loss = functional.cross_entropy(logits, tokens[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step.loss = loss.item()
        truth.ended(number, began)
        if number == 40:
            with log.checkpoint(number):
                torch.save((both.state_dict(), optimizer.state_dict()), saved)


def trainer(out: Path, *, resumed: bool) -> None:
    transformers = import_module("transformers")
    transformers.logging.set_verbosity_info()
    truth = Truth(out, "trainer", resumed=resumed)

    class Watch(transformers.TrainerCallback):
        def on_step_begin(self, *_args: Any, **_: Any) -> None:
            self.began = time.time()

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            truth.ended(state.global_step, self.began)

    rows = [{"input_ids": [random.randrange(99) for _ in range(64)]} for _ in range(4_000)]
    for row in rows:
        row["labels"] = row["input_ids"]
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 99, "n_positions": 64}
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    arguments = transformers.TrainingArguments(
        str(out / "hf"), max_steps=LAST["trainer"], logging_steps=1, save_steps=20, save_total_limit=1,
        per_device_train_batch_size=8, report_to="none", include_num_input_tokens_seen=True, bf16=True,
    )  # fmt: skip
    module, log = recorder(out, "trainer", seq_len=64)
    callbacks = [module.hugging_face(log), Watch()]
    transformers.Trainer(network, arguments, train_dataset=rows, callbacks=callbacks).train(
        resume_from_checkpoint=resumed
    )


def lightning(out: Path, *, resumed: bool) -> None:
    torch, pl = import_module("torch"), import_module("lightning.pytorch")
    csv = import_module("lightning.pytorch.loggers").CSVLogger(out, "csv", flush_logs_every_n_steps=1)
    truth = Truth(out, "lightning", resumed=resumed)

    class Tiny(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(32, 32)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.layer(batch).pow(2).mean()
            self.log("train_loss", loss)
            self.log("step_time", 0.05)
            time.sleep(0.05)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    class Watch(pl.Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            self.began = time.time()

        def on_train_batch_end(self, loop_trainer: Any, *_: Any) -> None:
            truth.ended(loop_trainer.global_step, self.began)

    saves = pl.callbacks.ModelCheckpoint(out / "pl", every_n_train_steps=20, filename="l", enable_version_counter=False)
    module, log = recorder(out, "lightning")
    pl.Trainer(
        max_steps=LAST["lightning"], log_every_n_steps=1, logger=csv, enable_progress_bar=False,
        callbacks=[saves, module.lightning(log), Watch()],
    ).fit(Tiny(), torch.randn(4_000, 32), ckpt_path=out / "pl" / "l.ckpt" if resumed else None)  # fmt: skip


def main(out: Path) -> None:
    with (out / "trainer.log").open("wb") as log:
        subprocess.run(["nvidia-smi"], stdout=log, check=False)
    for what in ("loop", "trainer", "lightning"):
        for which in ("first", "second"):
            with (out / f"{what}.log").open("ab") as log:
                command = [sys.executable, "-u", __file__, str(out), what, which]
                subprocess.run(command, stdout=log, stderr=log, check=False)
            print(what, which, flush=True)
    names = [f"{what}-{which}" for what in KILLED for which in ("first", "second")]
    truth = {name: json.loads((out / f"{name}.json").read_text()) for name in names}
    (out / "truth.json").write_text(json.dumps(truth))
    shutil.copy(max(out.glob("hf/checkpoint-*/trainer_state.json")), out / "trainer_state.json")


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        {"loop": loop, "trainer": trainer, "lightning": lightning}[sys.argv[2]](folder, resumed=sys.argv[3] == "second")
    else:
        main(folder)
