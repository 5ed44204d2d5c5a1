"""The workload of the simulated cluster: its jobs, from weeks of pre-training to a forgotten notebook."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from app.demo.simulate.plan import BEGIN, DAY_S, GPUS_PER_NODE, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

Wish: TypeAlias = dict[str, Any]
"""Fields of a job before it has a number."""

PEAK_FLOPS = 989e12
"""Dense BF16 peak of an H100 SXM, FLOP/s (NVIDIA's data sheet, without sparsity)."""

PEOPLE = {
    "amara": ("pretraining", 1001),
    "bjorn": ("pretraining", 1002),
    "chen": ("posttraining", 1003),
    "dalia": ("posttraining", 1004),
    "emeka": ("vision", 1005),
    "freya": ("vision", 1006),
    "goran": ("speech", 1007),
    "hana": ("research", 1008),
    "ines": ("research", 1009),
    "jonas": ("research", 1010),
}
"""User name to account and uid."""

IDLE_PEOPLE = {"kenji": ("research", 12), "lea": ("vision", 50), "noor": ("speech", 8)}
"""Users who never submit anything: account, and the day on which they were added."""

REMOVED = {"noor": 33}
"""... and the day on which their access was taken away."""

OF_KUBERNETES = "kubernetes"
"""In place of a partition: jobs that Kubernetes runs, and that Slurm has no record of."""

OPERATOR = "mika"
"""The administrator who adds users, an operator of Slurm."""


@dataclass(frozen=True)
class Model:
    """A dense transformer in training: Llama's shape, gated MLP and grouped queries."""

    name: str
    params: float
    layers: int
    heads: int
    head_dim: int
    seq_len: int
    ffn_hidden: int
    kv_heads: int
    vocab: int
    tied: bool = False
    recompute: str = "none"

    @property
    def hidden(self) -> int:
        """Its width."""
        return self.heads * self.head_dim

    @property
    def flops_per_token(self) -> float:
        """6N + 12LHQT, forward and backward: PaLM (arXiv 2204.02311), appendix B."""
        return 6 * self.params + 12.0 * self.layers * self.heads * self.head_dim * self.seq_len


MODELS = (
    Model("70b", 7.0e10, 80, 64, 128, 8192, 28_672, 8, 128_256),
    Model("34b", 3.4e10, 48, 64, 128, 8192, 22_016, 8, 32_016, recompute="full"),
    Model("13b", 1.3e10, 40, 40, 128, 4096, 13_824, 40, 32_000),
    Model("8b", 8.03e9, 32, 32, 128, 8192, 14_336, 8, 128_256),
    Model("3b", 3.2e9, 28, 24, 128, 4096, 8_192, 8, 128_256, tied=True),
)


@dataclass(frozen=True)
class SimulatedJob:
    """A job: its request and its work; times are seconds.

    Attributes:
        kind: train, eval or interactive.
        n_nodes: nodes requested.
        gpus_per_node: 8 for whole nodes, fewer on the shared ones.
        steps: optimizer steps until it is done (train).
        step_s: length of a step on sound nodes.
        tokens: per step.
        checkpoint_steps: steps between checkpoints.
        checkpoint_s: how long saving one blocks.
        eval_steps: steps between evaluations inside the run; 0 for none.
        duration_s: how long it works (eval, interactive).
        ends_after_s: run time after which its user's mistake or will ends it, and how.
        hangs_after_s: run time after which it makes no progress any more.
        gives_up_after_s: how long its user waits for it to start.
        graceful: saves a checkpoint when it is signalled to stop.
        resubmits: is requeued by Slurm when a fault kills its processes.
        logged: writes a run log.
    """

    id: int
    name: str
    user: str
    partition: str
    qos: str
    kind: str
    submitted: int
    n_nodes: int
    gpus_per_node: int
    limit_s: int
    priority: int
    model: Model | None = None
    steps: int = 0
    step_s: float = 0.0
    tokens: float = 0.0
    checkpoint_steps: int = 1
    checkpoint_s: float = 0.0
    eval_steps: int = 0
    duration_s: int = 0
    ends_after_s: int | None = None
    ends_as: str = "COMPLETED"
    hangs_after_s: int | None = None
    gives_up_after_s: int | None = None
    graceful: bool = False
    requeues: bool = True
    resubmits: bool = False
    logged: bool = False

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.n_nodes * self.gpus_per_node

    @property
    def executed_share(self) -> float:
        """Of the GPUs' peak, what their tensor pipes do while it works.

        In training that is what the model needs less the attention that a causal mask leaves out, plus padding, and a
        third more where all activations are computed again.
        """
        if self.model is None:
            return 0.35
        model = self.model
        masked = 6.0 * model.layers * model.heads * model.head_dim * model.seq_len
        passes = 4 / 3 if model.recompute == "full" else 1.0
        return self.tokens * (model.flops_per_token - masked) * passes * 1.08 / (self.gpus * PEAK_FLOPS * self.step_s)

    @property
    def account(self) -> str:
        """Its user's account."""
        return PEOPLE[self.user][0]

    @property
    def uid(self) -> int:
        """Its user's number."""
        return PEOPLE[self.user][1]


def jobs(settings: Settings) -> list[SimulatedJob]:
    """All jobs of the simulated time, in order of submission."""
    chance = np.random.default_rng([settings.seed, 2])
    drafts = [
        *_large(settings),
        *_mid_size(settings, chance),
        *_small(settings, chance),
        *_shared(settings, chance),
    ]
    ordered = sorted(drafts, key=lambda each: (each["submitted"], -each["priority"], each["name"]))
    number = count(4101)
    return [SimulatedJob(id=next(number), **each) for each in ordered]


def _train(model: Model, gpus: int, *, sequences: int, mfu: float, hours: float, minutes: float) -> Wish:
    """Work derived from a model, a batch and an efficiency; checkpoints every so many minutes."""
    tokens = float(sequences * model.seq_len)
    step_s = tokens * model.flops_per_token / (gpus * PEAK_FLOPS * mfu)
    return {
        "kind": "train",
        "model": model,
        "tokens": tokens,
        "step_s": step_s,
        "steps": max(2, round(hours * 3600 / step_s)),
        "checkpoint_steps": max(1, round(minutes * 60 / step_s)),
    }


def _batch(model: Model, gpus: int, mfu: float, step_s: float) -> int:
    """Sequences (a multiple of the GPUs) that make a step about so long."""
    each = model.seq_len * model.flops_per_token / (PEAK_FLOPS * mfu)
    return gpus * max(1, round(step_s / each))


def _large(settings: Settings) -> Iterator[Wish]:
    """Pre-training on half and on a quarter of the cluster, for weeks."""
    hours = settings.days * 24.0
    rows = (
        ("pretrain-70b", MODELS[0], 2, 0.0, 0.86, 0.42, "amara", 47.0),
        ("pretrain-34b", MODELS[1], 4, 0.015, 0.44, 0.395, "bjorn", 50.0),
        ("pretrain-13b", MODELS[2], 4, 0.53, 0.60, 0.445, "bjorn", 52.0),
    )
    for name, model, share, begins, lasts, mfu, user, step_s in rows:
        nodes = max(1, settings.n_nodes // share)
        gpus = nodes * GPUS_PER_NODE
        yield {
            **_train(model, gpus, sequences=_batch(model, gpus, mfu, step_s), mfu=mfu, hours=lasts * hours, minutes=60),
            "name": name,
            "user": user,
            "partition": "train",
            "qos": "pretrain",
            "submitted": BEGIN + int(begins * hours * 3600),
            "n_nodes": nodes,
            "gpus_per_node": GPUS_PER_NODE,
            "limit_s": 90 * DAY_S,
            "priority": 1000 + nodes,
            "checkpoint_s": 75.0,
            "eval_steps": max(1, round(8 * 3600 / step_s)),
            "graceful": True,
            "resubmits": True,
            "logged": True,
        }


def _arrivals(settings: Settings, chance: np.random.Generator, per_day: float) -> list[int]:
    """Submissions at random, fewer at night and on weekends; the number grows with the cluster."""
    rate = per_day * settings.n_nodes / 128
    total = int(chance.poisson(rate * settings.days))
    arrivals: list[int] = []
    while len(arrivals) < total:
        at = int(chance.integers(BEGIN + 60, settings.end - 600))
        hour, weekday = at % DAY_S // 3600, (at // DAY_S + 3) % 7
        if chance.random() < (1.0 if 7 <= hour < 19 else 0.5) * (1.0 if weekday < 5 else 0.5):
            arrivals.append(at)
    return sorted(arrivals)


def _mid_size(settings: Settings, chance: np.random.Generator) -> Iterator[Wish]:
    """Training of 16 to 128 GPUs, hours to days, most of it logged."""
    sizes = [n for n in (2, 4, 8, 16) if n <= max(2, settings.n_whole // 7)]
    shares = np.array([0.40, 0.32, 0.20, 0.08][: len(sizes)])
    people = ["chen", "dalia", "emeka", "freya", "goran"]
    for number, submitted in enumerate(_arrivals(settings, chance, 2.1)):
        nodes = int(chance.choice(sizes, p=shares / shares.sum()))
        model = MODELS[int(chance.integers(2, len(MODELS)))]
        mfu, step_s = float(chance.uniform(0.33, 0.44)), float(chance.uniform(85, 119))
        hours = float(np.clip(chance.lognormal(np.log(22), 0.7), 4, 84))
        fate = chance.random()
        gpus = nodes * GPUS_PER_NODE
        yield {
            **_train(
                model,
                gpus,
                sequences=_batch(model, gpus, mfu, step_s),
                mfu=mfu,
                hours=hours,
                minutes=float(chance.uniform(20, 40)),
            ),
            **_fate(chance, fate, hours, failed=0.10, cancelled=0.10),
            "name": f"{chance.choice(['finetune', 'sft', 'midtrain', 'distill'])}-{model.name}-{number:03d}",
            "user": str(chance.choice(people)),
            "partition": "train",
            "qos": "normal",
            "submitted": submitted,
            "n_nodes": nodes,
            "gpus_per_node": GPUS_PER_NODE,
            "limit_s": int(np.ceil(max(24.0, hours * 1.6) / 24)) * DAY_S,
            "priority": 100,
            "checkpoint_s": float(chance.uniform(25, 55)),
            "eval_steps": max(1, round(float(chance.uniform(4, 10)) * 3600 / step_s)),
            "graceful": True,
            "resubmits": bool(chance.random() < 0.8),
            "logged": bool(chance.random() < 0.85),
        }


def _small(settings: Settings, chance: np.random.Generator) -> Iterator[Wish]:
    """Jobs on one or two whole nodes: fine-tuning, ablations, evaluations; they give way to the large runs."""
    for number, submitted in enumerate(_arrivals(settings, chance, 21.0)):
        common: Wish = {
            "user": str(chance.choice(list(PEOPLE))),
            "partition": "train",
            "qos": "scavenge",
            "submitted": submitted,
            "n_nodes": 1 if chance.random() < 0.85 else min(2, settings.n_whole),
            "gpus_per_node": GPUS_PER_NODE,
            "priority": 10,
        }
        if chance.random() < 0.14:
            yield {**common, **_evaluation(chance, number, most_hours=3.0)}
            continue
        hours = float(np.clip(chance.lognormal(np.log(3.0), 1.0), 0.15, 30))
        yield {
            **common,
            **_little_training(chance, common["n_nodes"] * GPUS_PER_NODE, hours),
            "name": f"{chance.choice(['ablation', 'sweep', 'finetune', 'debug'])}-{number:04d}",
        }


def _shared(settings: Settings, chance: np.random.Generator) -> Iterator[Wish]:
    """Jobs of 1 to 4 GPUs on the shared nodes: debugging, evaluations, forgotten notebooks."""
    for number, submitted in enumerate(_arrivals(settings, chance, 16.0)):
        gpus = int(chance.choice([1, 2, 4], p=[0.5, 0.3, 0.2]))
        common: Wish = {
            "user": str(chance.choice(list(PEOPLE))),
            "partition": "dev",
            "qos": "normal",
            "submitted": submitted,
            "n_nodes": 1,
            "gpus_per_node": gpus,
            "priority": 10,
        }
        draw = chance.random()
        if draw < 0.20:
            yield {**common, **_notebook(chance, number)}
        elif draw < 0.40:
            yield {**common, **_evaluation(chance, number, most_hours=5.0)}
        else:
            hours = float(np.clip(chance.lognormal(np.log(3.0), 1.1), 0.05, 40))
            yield {**common, **_little_training(chance, gpus, hours), "name": f"dev-{number:04d}"}


def _little_training(chance: np.random.Generator, gpus: int, hours: float) -> Wish:
    model = MODELS[int(chance.integers(3, len(MODELS)))]
    mfu = float(chance.uniform(0.2, 0.4))
    fate = chance.random()
    hung = {"hangs_after_s": int(hours * 3600 * chance.uniform(0.1, 0.8))} if fate > 0.95 else {}
    # Whoever requests too little time runs into the limit.
    slack = chance.uniform(0.6, 0.95) if 0.88 < fate <= 0.95 else chance.uniform(1.3, 3.0)
    return {
        **_train(model, gpus, sequences=_batch(model, gpus, mfu, 110.0), mfu=mfu, hours=hours, minutes=30),
        **_fate(chance, fate, hours, failed=0.22, cancelled=0.12),
        **hung,
        "limit_s": max(900, int(np.ceil(hours * slack * 4)) * 900),
        "checkpoint_s": 8.0,
        "graceful": bool(chance.random() < 0.5),
        "gives_up_after_s": int(chance.uniform(1, 10) * 3600) if chance.random() < 0.25 else None,
    }


def _fate(chance: np.random.Generator, fate: float, hours: float, *, failed: float, cancelled: float) -> Wish:
    """Whether its user's mistake or will ends a job, and when: mistakes show early."""
    if fate < failed:
        states = ["FAILED", "FAILED", "FAILED", "OUT_OF_MEMORY"]
        return {
            "ends_after_s": 60 + int(hours * 3600 * chance.beta(0.6, 2.5)),
            "ends_as": str(chance.choice(states)),
        }
    if fate < failed + cancelled:
        return {"ends_after_s": 60 + int(hours * 3600 * chance.uniform(0.05, 0.95)), "ends_as": "CANCELLED"}
    return {}


def _evaluation(chance: np.random.Generator, number: int, *, most_hours: float) -> Wish:
    duration = int(chance.uniform(0.1, most_hours) * 3600)
    return {
        "kind": "eval",
        "name": f"eval-{chance.choice(['mmlu', 'gsm8k', 'humaneval', 'longctx'])}-{number:04d}",
        "duration_s": duration,
        "limit_s": max(3600, duration * 2 // 900 * 900),
    }


def _notebook(chance: np.random.Generator, number: int) -> Wish:
    duration = int(chance.lognormal(np.log(6), 0.6) * 3600)
    return {
        "kind": "interactive",
        "name": f"jupyter-{number:04d}",
        "duration_s": min(duration, 46 * 3600),
        "ends_as": "CANCELLED" if chance.random() < 0.6 else "COMPLETED",
        "limit_s": 2 * DAY_S,
        "requeues": False,
    }
