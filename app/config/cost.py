"""Cost of GPU-time: prices, the grid's emissions and the site's overhead, as data of the configuration."""

from __future__ import annotations

from datetime import date

from pydantic import Field

from ingest.settings import SettingsSection


class Price(SettingsSection):
    """Price of an hour of a GPU, from a day on."""

    gpu_model: str = ""
    since: date | None = None
    per_gpu_hour: float = Field(ge=0)


class GridIntensity(SettingsSection):
    """Emissions of the grid, from a day on."""

    since: date | None = None
    kg_per_kwh: float = Field(ge=0)


class Cost(SettingsSection):
    """Cost of GPU-time: for `trackside show cost` and `show people`. There are no built-in prices and factors."""

    currency: str = Field(default="", max_length=8, description="name of the currency of all prices: EUR, USD")
    prices: tuple[Price, ...] = Field(
        default=(),
        description="a table [[cost.prices]] for each price: `gpu_model` (words of its name; none: any GPU), `since` "
        "(first UTC day; none: from ever), `per_gpu_hour`",
    )
    grid: tuple[GridIntensity, ...] = Field(
        default=(),
        description="a table [[cost.grid]] for each factor: `since` (as above), `kg_per_kwh` of CO2 equivalent",
    )
    pue: float = Field(
        default=1.0, ge=1, le=10, description="energy of the site per energy of its GPUs; 1: without cooling"
    )
