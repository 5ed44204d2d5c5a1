"""Results of one's own that runs are compared with: `trackside show scaling --by reference`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from ingest.settings import SettingsSection
from metrics.mfu.peaks import gpu_of


class ScalingReference(SettingsSection):
    """The result of a recipe on a kind and number of GPUs."""

    name: str = Field(min_length=1)
    source: str = ""
    recipe: str = Field(min_length=1)
    gpu: str = Field(min_length=1)
    n_gpus: int = Field(gt=0)
    minutes: float | None = Field(default=None, gt=0)
    tokens_per_gpu_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _has_a_result(self) -> Self:
        if self.minutes is None and self.tokens_per_gpu_s is None:
            raise ValueError("a reference has a result: minutes (time to train), tokens_per_gpu_s, or both")
        return self

    def row(self) -> dict[str, object]:
        """As the published results are: the GPU by its name in the table of peaks, where it is there."""
        known = gpu_of(self.gpu)
        return {**self.model_dump(), "gpu": self.gpu if known is None else known.name}


class Scaling(SettingsSection):
    """References of `trackside show scaling`."""

    reference: tuple[ScalingReference, ...] = Field(
        default=(),
        description="a table [[scaling.reference]] for each result beside the published ones: `name`, `recipe` (as "
        "the run log names it), `gpu`, `n_gpus`, `minutes` (time to train), `tokens_per_gpu_s`, `source` (publisher)",
    )
