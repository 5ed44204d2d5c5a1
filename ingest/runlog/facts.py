"""Facts about a run that its log does not record: stated on the command line, or in a model's own file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import OptionError, shorten
from ingest.runlog.lines import Run
from ingest.runlog.series import KEYS
from queries.near_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NAMES: Final = tuple(
    field.name
    for field in msgspec.structs.fields(Run)
    if field.name not in {"t", "v", "cluster", "restart_count", "rank"}
)
"""Facts that can be stated: those of a `run` line that hold for the whole log."""

GATED: Final = ("llama", "mistral", "mixtral", "qwen", "gemma", "deepseek", "phi3", "olmo", "granite", "command")
"""Beginnings of the model types (Hugging Face) whose feed-forward layers are gated (three matrices, not two)."""

_HUGGING_FACE: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers", "n_layer"),
    "heads": ("num_attention_heads", "n_head"),
    "head_dim": ("head_dim",),
    "hidden": ("hidden_size", "n_embd"),
    "ffn_hidden": ("intermediate_size", "n_inner"),
    "kv_heads": ("num_key_value_heads",),
    "vocab": ("vocab_size",),
    "tied": ("tie_word_embeddings",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "top_k": ("num_experts_per_tok",),
    "shared_experts": ("n_shared_experts",),
    "expert_ffn_hidden": ("moe_intermediate_size",),
}
"""Facts by the keys of a `config.json`. Its sequence length and data type describe the model's abilities, and
not its training: neither is read."""

_PARAMS_JSON: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("n_layers",),
    "heads": ("n_heads",),
    "hidden": ("dim",),
    "kv_heads": ("n_kv_heads",),
    "vocab": ("vocab_size",),
    "ffn_hidden": ("hidden_dim",),
}
"""Facts by the keys of a `params.json`."""


def stated(settings: Iterable[str]) -> dict[str, Any]:
    """Facts written as NAME=VALUE.

    >>> stated(["n_gpus=16", "dtype=fp8"])
    {'n_gpus': 16, 'dtype': 'fp8'}

    Raises:
        OptionError: one is not written like that, there is no such fact, or it cannot have that value.
    """
    facts: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise OptionError(f"--set {setting}: write NAME=VALUE, such as n_gpus=16")
        if name not in {*NAMES, *KEYS}:
            hint = did_you_mean(name, (*NAMES, *KEYS)) or f"; there are: {', '.join((*NAMES, *KEYS))}"
            raise OptionError(f"--set {setting}: there is no fact {name!r}{hint}")
        facts[name] = value.strip()
    return converted(facts)


def converted(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts with the types of a `run` line.

    Raises:
        OptionError: one cannot have that value.
    """
    try:
        run = msgspec.convert(_NO_RUN | facts, Run, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).replace("`", "").partition(" - at $.")
        raise OptionError(f"--set {path}={facts.get(path)}: {message}") from None
    return {name: facts[name] if name in KEYS else getattr(run, name) for name in facts}


def of_model(path: Path) -> dict[str, Any]:
    """The sizes of a model from its own file: Hugging Face's `config.json`, or a `params.json`.

    Raises:
        OptionError: it cannot be read, or has no sizes of a model.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"--model {path}: {shorten(str(error))}") from None
    if not isinstance(content, dict):
        raise OptionError(f"--model {path}: not a JSON object")
    sizes = sizes_of(content)
    if sizes is None:
        raise OptionError(f"--model {path}: no sizes of a model in it (config.json of Hugging Face, or params.json)")
    return sizes


def sizes_of(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sizes of a model from the contents of its file; None where they are not in it."""
    content = content["text_config"] if isinstance(content.get("text_config"), dict) else content
    keys = _PARAMS_JSON if "n_layers" in content and "dim" in content else _HUGGING_FACE
    facts = {name: _first(content, among) for name, among in keys.items()}
    known: dict[str, Any] = {name: value for name, value in facts.items() if value is not None}
    if not {"layers", "hidden"} <= known.keys():
        return None
    heads, hidden = known.get("heads"), known["hidden"]
    if "head_dim" not in known and heads and hidden % heads == 0:
        known["head_dim"] = hidden // heads
    if "kv_heads" not in known and heads:
        known["kv_heads"] = heads
    kind = str(content.get("model_type", "llama" if keys is _PARAMS_JSON else ""))
    gated = {"gated": True} if kind.startswith(GATED) else {}
    return {"params": _params(known | gated), **known, **gated}


RECORDED: Final = tuple(
    name for name in NAMES if name not in {"run_id", "job_id", "scheduler", "node", "flop_convention"}
)
"""Facts that a configuration records under these names. Its `scheduler` is one of learning rates."""


def recorded(config: Mapping[str, Any]) -> dict[str, Any]:
    """Facts in the configuration that a training program recorded of itself: ours by name, and Hugging Face's.

    >>> recorded({"seq_len": 128, "hidden": [64, 64], "bf16": True, "scheduler": "cosine"})
    {'dtype': 'bf16', 'seq_len': 128}
    """
    types = [name for name in ("bf16", "fp16") if config.get(name) is True]
    facts: dict[str, Any] = {**(sizes_of(config) or {}), **({"dtype": types[0]} if len(types) == 1 else {})}
    for name in RECORDED:
        if config.get(name) is not None:
            try:
                facts |= {name: getattr(msgspec.convert({**_NO_RUN, name: config[name]}, Run), name)}
            except msgspec.ValidationError:
                continue
    return {name: value for name, value in facts.items() if value is not None}


_NO_RUN: Final = {"run_id": "", "t": 0.0, "type": "run"}


def _params(sizes: Mapping[str, Any]) -> int | None:
    """Parameters of a dense model with gated layers, biases not counted; None where the sizes do not decide it.

    >>> sizes = {"layers": 32, "heads": 32, "head_dim": 128, "hidden": 4096, "ffn_hidden": 14336, "kv_heads": 8}
    >>> _params(sizes | {"vocab": 128256, "tied": False, "gated": True})  # Llama 3.1 8B
    8030261248
    """
    needed = ("layers", "heads", "head_dim", "hidden", "ffn_hidden", "kv_heads", "vocab", "gated")
    if sizes.get("experts") or any(name not in sizes for name in needed):
        return None
    layers, heads, head_dim, hidden, ffn_hidden, kv_heads, vocab = (sizes[name] for name in needed[:-1])
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    a_layer = attention + 3 * hidden * ffn_hidden + 2 * hidden
    return int(layers * a_layer + (1 if sizes.get("tied") else 2) * vocab * hidden + hidden)


def _first(content: Mapping[str, Any], names: Iterable[str]) -> int | bool | None:
    """The first of these keys with a whole number above zero, or a truth value."""
    for name in names:
        value = content.get(name)
        if isinstance(value, bool) or (isinstance(value, int) and value > 0):
            return value
    return None
