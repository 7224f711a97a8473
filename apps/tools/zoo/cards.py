"""Model cards: what a model is, for what it was made, and for what it must not be used. One JSON file a model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen

Task = Literal["detect", "obb", "segment", "classify", "change", "prompt"]
Format = Literal["rsw", "ultralytics", "onnx", "torchscript", "sam"]


class CountCalibration(Frozen):
    """From a score to the probability that the box is a true object, and how far counts strayed on labelled pictures.

    ``p = 1 / (1 + exp(-(slope · logit(score) + intercept)))``, fitted on boxes matched at IoU 0.5. ``missed`` is the share of
    true objects that no candidate hits; ``spread`` the relative deviation of counts between pictures beyond that.
    """

    slope: float
    intercept: float
    missed: float = Field(ge=0, lt=1)
    spread: float = Field(ge=0)
    fitted_on: str = Field(max_length=300)
    n_objects: int = Field(ge=0)


class ClassCard(Frozen):
    """One class of a detector: other words for it, its size on the ground and the GSD at which the model knows it."""

    name: str = Field(max_length=80)
    synonyms: tuple[str, ...] = ()
    near: tuple[str, ...] = Field(default=(), description="everyday words that usually mean the class, a little narrower; "
                                                          "served, and the evidence says so")
    narrower: tuple[str, ...] = Field(default=(), description="kinds of it that the model cannot tell apart; never served alone")
    size_m: tuple[float, float] | None = Field(default=None, description="usual least and greatest long side")
    gsd_m: tuple[float, float] | None = Field(default=None, description="range of pictures it was made for")
    work_gsd_m: float | None = Field(default=None, gt=0, description="what pictures are resampled to before detection")
    experimental: bool = False
    score_threshold: float = Field(default=0.25, ge=0, le=1)
    calibration: CountCalibration | None = None
    scores: dict[str, JsonValue] = Field(default_factory=dict)


class ModelCard(Frozen):
    """A model of the zoo. ``file`` lies beside the card; ``sha256`` is checked before it is loaded."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,79}$")
    title: str = Field(default="", max_length=200)
    version: str = Field(default="1", max_length=40)
    task: Task
    format: Format
    file: str = Field(max_length=200)
    sha256: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    bytes: int = Field(ge=1)
    classes: tuple[ClassCard, ...] = Field(min_length=1, max_length=5000)
    bands: tuple[str, ...] = ("red", "green", "blue")
    gsd_m: tuple[float, float] | None = Field(default=None, description="range of GSD in metres it was made for")
    sensors: str = Field(default="", max_length=300)
    sensor_words: tuple[str, ...] = Field(default=(), description="parts of the names of sensors it was made for, lower case; "
                                                                  "empty: any")
    reflectance_range: tuple[float, float] | None = Field(
        default=None, description="reflectance that its training pictures show as 0 and as 255; None: 8-bit pictures as given")
    places: str = Field(default="", max_length=500, description="where its training pictures lie")
    tile_px: int = Field(default=640, ge=32, le=4096)
    licence: str = Field(max_length=300)
    data: tuple[str, ...] = ()
    scores: dict[str, JsonValue] = Field(default_factory=dict)
    not_for: tuple[str, ...] = ()
    temperature: float | None = Field(default=None, gt=0, description="of a classifier's softmax")
    scope_threshold: float | None = Field(default=None, description="a classifier's scope score below which it says nothing")
    scope_auroc: dict[str, float] = Field(default_factory=dict)
    url: str = Field(default="", max_length=500)
    architecture: str = Field(default="", max_length=40, description="of a file that holds tensors alone and names none")
    trusted: bool = Field(default=True, description="False: a pickle that a person added without --trust; never loaded")
    source: Literal["shipped", "added"] = "shipped"

    def is_for_gsd(self, gsd_m: float) -> bool:
        """Whether it was made for pixels of this size, a hundredth more or less: a grid's pixel is seldom round in metres."""
        return self.gsd_m is None or self.gsd_m[0] * 0.99 <= gsd_m <= self.gsd_m[1] * 1.01

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.classes)

    def class_card(self, word: str, *, with_near: bool = True) -> ClassCard | None:
        """The class that a word means: its name, a synonym or a near word, singular or plural; None where there is none."""
        wanted = normal(word)
        for c in self.classes:
            if wanted in {normal(w) for w in (c.name, *c.synonyms, *(c.near if with_near else ()))}:
                return c
        return None

    def broader_class(self, word: str) -> ClassCard | None:
        """The class of which the word names a kind that the model cannot tell apart; None where there is none."""
        wanted = normal(word)
        return next((c for c in self.classes if wanted in {normal(w) for w in c.narrower}), None)


def normal(word: str) -> str:
    """A word without case, blanks, hyphens and English plural: 'Storage Tanks' and 'storage-tank' are one."""
    text = word.strip().lower().replace("_", " ").replace("-", " ")
    parts = text.split()
    if parts:
        last = parts[-1]
        if last.endswith("ies") and len(last) > 4:
            last = last[:-3] + "y"
        elif last.endswith(("ses", "xes", "ches", "shes")):
            last = last[:-2]
        elif last.endswith("s") and not last.endswith("ss") and len(last) > 3:
            last = last[:-1]
        parts[-1] = last
    return "".join(parts)
