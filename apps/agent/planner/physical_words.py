"""Words of physical quantities, and of the numbers that go with them."""

from __future__ import annotations

from collections.abc import Mapping

# What the words may give: how it is said, and as what it is known.
COEFFICIENTS: Mapping[str, str] = {
    "(?:column )?water vapou?r(?: column)?|precipitable water": "water_vapour", "emissivity": "emissivity",
    "(?:radiance )?gain": "gain", "(?:radiance )?offset": "offset", "k1": "k1", "k2": "k2",
    "background(?: temperature)?": "background",
}  # fmt: skip
# What is asked for: how it is said, and which plan makes it. Longer words first.
PRODUCTS: Mapping[str, str] = {
    r"(?:at[- ]sensor |toa |top[- ]of[- ]atmosphere )?brightness temperatures?": "brightness",
    r"(?:land |ground |soil |skin )?surface temperatures?|skin temperatures?|lst|temperatures?": "surface",
    r"(?:surface |land |ground |ndvi )?emissivity": "emissivity",
    r"(?:broadband |surface |shortwave )?albedo": "albedo",
    r"(?:temperature[- ]vegetation )?dryness(?: index)?(?: \(tvdi\))?|tvdi": "tvdi",
    r"(?:apparent )?thermal inertia|ati": "inertia",
    r"(?:diurnal|day[- ](?:to[- ])?night) temperature (?:range|difference|amplitude)|diurnal range": "diurnal",
    r"(?:mean )?day and night temperature": "day_night",
    r"(?:water )?turbidity": "turbidity",
    r"(?:column |total |atmospheric )*water vapou?r|precipitable water": "vapour",
    r"fire radiative power|frp": "fire",
    r"snow depth": "snow",
    r"sea[- ]ice concentration": "ice",
}  # fmt: skip
