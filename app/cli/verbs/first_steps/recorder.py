"""`trackside recorder`: print the run-log recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.options import add_verb, path_of

if TYPE_CHECKING:
    import argparse

    from app.cli.options import Subparsers


EPILOG = """\
trackside recorder > trackside_log.py     one file, standard library only: copy it beside your training script
  import trackside_log
  log = trackside_log.start("run.jsonl", run_id="llama-8b", n_gpus=16, params_active=8.03e9, layers=32, heads=32,
                            head_dim=128, seq_len=8192, dtype="bf16", gpu_model="H100", recompute="none")
  for step in range(first, last):
      with log.step(step, tokens=batch_tokens): train()
      if step % 500 == 0:
          with log.checkpoint(step): save()
It never stops training: an error of the log is printed once on stderr. Only rank 0 writes (RANK, SLURM_PROCID).
More arguments about the model allow more FLOP conventions: hidden, ffn_hidden, kv_heads, vocab, gated, tied (for
Megatron's and torchtitan's), attention_layers (hybrid), experts, top_k, shared_experts, expert_params (mixture of
experts: active parameters follow from params), recompute (none, selective or full: HFU beside MFU).
Hugging Face and Lightning: Trainer(..., callbacks=[trackside_log.hugging_face(log)]), or trackside_log.lightning(log).
The file documents the rest: checkpoint_async for saves in the background, event("checkpoint_load"), event("eval").
then: trackside ingest runlog run.jsonl"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the verb and its options."""
    parser = add_verb(
        subparsers,
        "recorder",
        "print the one-file run-log recorder for training loops",
        warehouse=False,
        config=False,
        epilog=EPILOG,
        manual="sources/run-logs",
    )
    parser.add_argument("--output", "-o", type=path_of, metavar="FILE", help="file to write (default: standard output)")


def run(options: argparse.Namespace) -> int:
    """Print the recorder, or write it to a file.

    Raises:
        UsageError: the file cannot be written.
    """
    from app import console
    from app.output_file import write_file
    from ingest.runlog.store import recorder_text

    if options.output is None:
        console.echo(recorder_text().removesuffix("\n"))
        return 0
    write_file(options.output, recorder_text().encode())
    return 0
