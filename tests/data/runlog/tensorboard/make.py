"""Makes the fixtures of this folder: event files by real tensorboardX; a run that is killed and resumed.

    python -m venv env && env/bin/pip install tensorboardX==2.6.5
    env/bin/python make.py OUT

`make.py OUT tensorboard` writes them by the writer of the package tensorboard itself, as PyTorch does.

Only every second step is logged. The first process is killed after step 20; the second one goes on from step 14.
"""

# ruff: noqa: T201, TID251 - a script, run by the Python of another environment

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path


class TensorBoard:
    """The same methods by the package tensorboard; what they write is what torch.utils.tensorboard does."""

    def __init__(self, out: str, flush_secs: int) -> None:
        writers = import_module("tensorboard.summary.writer.event_file_writer")
        self._writer = writers.EventFileWriter(out, flush_secs=flush_secs)
        self.flush, self.close = self._writer.flush, self._writer.close

    def _add(self, step: int, **value: object) -> None:
        event = import_module("tensorboard.compat.proto.event_pb2").Event
        summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._writer.add_event(event(wall_time=time.time(), step=step, summary=summary(value=[summary.Value(**value)])))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number."""
        self._add(step, tag=tag, simple_value=value)

    def add_text(self, tag: str, text: str) -> None:
        """Write a text."""
        tensor = import_module("tensorboard.compat.proto.tensor_pb2").TensorProto
        metadata = import_module("tensorboard.compat.proto.summary_pb2").SummaryMetadata
        plugin = metadata(plugin_data=metadata.PluginData(plugin_name="text"))
        strings = tensor(dtype="DT_STRING", string_val=[text.encode()])
        self._add(0, tag=f"{tag}/text_summary", metadata=plugin, tensor=strings)

    def add_histogram(self, tag: str, values: list[int], step: int) -> None:
        """Write a histogram."""
        histogram = import_module("tensorboard.compat.proto.histogram_pb2").HistogramProto
        top = float(max(values))
        shape = histogram(min=0, max=top, num=len(values), bucket_limit=[top], bucket=[len(values)])
        self._add(step, tag=tag, histo=shape)


def train(out: str, first: int, last: int, package: str, *, killed: bool) -> None:
    """Log some steps; prints what the loop knows of each."""
    writer_of = TensorBoard if package == "tensorboard" else import_module(package).SummaryWriter

    config = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4}
    writer = writer_of(out, flush_secs=1)
    writer.add_text("model_config", json.dumps(config))
    for step in range(first, last):
        begin = time.time()
        time.sleep(0.02)
        took = time.time() - begin
        if step % 2 == 0:
            writer.add_scalar("train/loss", 4 / (step + 1), step)
            writer.add_scalar("train/step_time", took, step)
            writer.add_scalar("train/learning_rate", 0.001, step)
            if step == 0:
                writer.add_histogram("weights", list(range(50)), step)
        print(json.dumps({"step": step, "end": time.time(), "duration_s": took, "loss": 4 / (step + 1)}), flush=True)
    writer.flush()
    time.sleep(2)  # its thread writes
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    writer.close()


def main(out: Path, package: str) -> None:
    """Run both processes."""
    truth = []
    for first, last in ((0, 21), (14, 29)):
        command = [sys.executable, __file__, "train", str(out / "tiny"), str(first), str(last), package]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        truth.append([json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"step"')])
    (out / "truth.json").write_text(json.dumps(truth) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], killed=sys.argv[4] == "21")
    else:
        main(Path(sys.argv[1]), *(sys.argv[2:] or ["tensorboardX"]))
