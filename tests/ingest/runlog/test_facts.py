"""Facts about a run that its log does not record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors import OptionError
from ingest.runlog.facts import of_model, stated

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
}


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_stated_facts_have_their_types() -> None:
    facts = stated(["n_gpus=16", "params=8.03e9", "gpu_model=H100 SXM", "gated=true"])
    assert facts == {"n_gpus": 16, "params": 8.03e9, "gpu_model": "H100 SXM", "gated": True}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n_gpus", "write NAME=VALUE"),
        ("xyz=3", "there is no fact 'xyz'; there are: run_id"),
        ("n_gpu=3", "there is no fact 'n_gpu'; did you mean n_gpus"),
        ("n_gpus=many", "--set n_gpus=many: Expected"),
    ],
)
def test_a_mistake_in_a_stated_fact_is_named(setting: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stated([setting])


def test_a_models_file_gives_its_sizes_and_parameters(tmp_path: Path) -> None:
    facts = of_model(written(tmp_path / "config.json", LLAMA))
    assert facts["params"] == 8_030_261_248  # as published for Llama 3.1 8B
    assert (facts["layers"], facts["head_dim"], facts["kv_heads"], facts["gated"]) == (32, 128, 8, True)
    assert {"seq_len", "dtype"} & facts.keys() == set()


@pytest.mark.parametrize("change", [{"model_type": "gpt2"}, {"num_local_experts": 8}, {"vocab_size": None}])
def test_parameters_stay_unknown_where_sizes_do_not_decide_them(tmp_path: Path, change: dict[str, Any]) -> None:
    assert of_model(written(tmp_path / "config.json", LLAMA | change))["params"] is None


def test_a_params_file_of_llama_is_read(tmp_path: Path) -> None:
    content = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256}
    facts = of_model(written(tmp_path / "params.json", content))
    assert (facts["layers"], facts["hidden"], facts["kv_heads"]) == (32, 4096, 8)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": -1, "num_hidden_layers": 2}', "[" * 100_000])
def test_a_file_without_sizes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(OptionError, match="--model"):
        of_model(path)
