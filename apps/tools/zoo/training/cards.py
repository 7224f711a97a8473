"""Writes the card of a trained detector or classifier beside its weights; scores are filled in by ``evaluate``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps.core.digests import digest_file
from apps.tools.zoo.cards import ClassCard, CountCalibration, ModelCard

DETECTOR_NOT_FOR = (
    "Kinds of vehicles: cars, vans, trucks and buses are one class.",
    "Oblique pictures, night, snow, SAR, thermal pictures.",
    "Pictures coarser than 0.35 m a pixel for vehicles: they are too small there.",
    "Legal or military decisions, or the tracking of people.",
    "Dense marinas: most boats side by side are missed.",
)
DETECTOR_DATA = (
    "KIT AIS Munich frames (CC BY 3.0)", "Minsk drone frames, Yauhen Kharuzhy and Minsk OSM community (CC BY-SA)",
    "Cars - Overhead View, AVDC Cranfield (public domain)", "GDIT Aerial Airport v1 (public domain)",
    "Ship detection from aerial images (CC0 as remembered, not confirmed)",
    "UC Merced Land Use (USGS, public domain), vehicles pseudo-labelled by a first trial")


def write_card(card: ModelCard, folder: Path) -> ModelCard:
    """Writes ``<name>.json`` and ``<name>.md``: the same facts for programs and for people."""
    (folder / f"{card.name}.json").write_text(json.dumps(card.model_dump(mode="json", exclude_defaults=True), indent=1) + "\n")
    (folder / f"{card.name}.md").write_text(markdown(card))
    return card


def markdown(card: ModelCard) -> str:
    """The card as a page."""
    gsd = f"{card.gsd_m[0]:g} to {card.gsd_m[1]:g} m a pixel" if card.gsd_m else "any"
    lines = [f"# {card.name}", "", card.title + ".", "", "| | |", "| --- | --- |", f"| task | {card.task} |",
             f"| version | {card.version} |", f"| bands | {', '.join(card.bands)} |", f"| ground sampling distance | {gsd} |",
             f"| made for | {card.sensors} |", f"| places of the training pictures | {card.places} |",
             f"| licence | {card.licence} |", f"| weights | {card.file}, {card.bytes:,} bytes, {card.sha256} |"]
    if card.temperature is not None:
        lines.append(f"| temperature | {card.temperature:.3f} |")
    if card.scope_threshold is not None:
        lines.append(f"| scope score below which it gives no class | {card.scope_threshold:.3f} |")
    lines += ["", "## Must not be used for", "", *[f"- {n}" for n in card.not_for]]
    lines += ["", "## Data", "", *[f"- {d}" for d in card.data], "", "## Classes", ""]
    if card.task == "classify":
        lines.append(", ".join(c.name for c in card.classes) + ".")
    else:
        for c in card.classes:
            mark = " (experimental: its counts are a hint)" if c.experimental else ""
            lines += [f"### {c.name}{mark}", ""]
            if c.size_m and c.gsd_m and c.work_gsd_m:
                lines.append(f"Long side {c.size_m[0]:g} to {c.size_m[1]:g} m; pictures of {c.gsd_m[0]:g} to {c.gsd_m[1]:g} m a "
                             f"pixel, resampled to {c.work_gsd_m:g} m.")
            if c.near:
                lines.append(f"Asked for {' or '.join(c.near)} it answers with all of the class, and says so.")
            if c.narrower:
                lines.append(f"It cannot tell apart: {', '.join(c.narrower)}.")
            if c.scores:
                lines += ["", "| score | value |", "| --- | --- |"]
                lines += [f"| {k.replace('_', ' ')} | {v} |" for k, v in c.scores.items()]
            if c.calibration:
                k = c.calibration
                told = (f"Counts: logit slope {k.slope:g}, intercept {k.intercept:g}; {k.missed:.0%} of objects have no "
                        f"candidate; spread between pictures {k.spread:.0%}. Fitted on {k.fitted_on} ({k.n_objects} objects).")
                lines += ["", told]
            lines.append("")
    if card.scores:
        lines += ["", "## Scores", "", "```json", json.dumps(card.scores, indent=1), "```"]
    if card.scope_auroc:
        lines += ["", "## Telling other pictures apart (AUROC of the scope score)", "",
                  *[f"- {k}: {v:.3f}" for k, v in card.scope_auroc.items()]]
    return "\n".join(lines).rstrip() + "\n"


def detector_card(weights: Path, folder: Path, *, name: str, version: str, scores: Mapping[str, Any] | None = None,
                  outside: Mapping[str, Any] | None = None) -> ModelCard:
    """Copies ``weights`` to ``folder/<name>.rsw`` and writes ``<name>.json``."""
    target = folder / f"{name}.rsw"
    if weights.resolve() != target.resolve():
        shutil.copyfile(weights, target)
    told = dict(scores or {})

    def of(cls: str) -> tuple[CountCalibration | None, dict[str, Any]]:
        mine = dict(told.get(cls, {}))
        calibration = mine.pop("calibration", None)
        return (CountCalibration.model_validate(calibration) if calibration else None), mine

    vehicle, plane, ship = of("vehicle"), of("plane"), of("ship")
    classes = (
        ClassCard(name="vehicle", synonyms=("motor vehicle", "road vehicle", "automobile vehicle"), near=("car", "automobile"),
                  narrower=("truck", "lorry", "bus", "van", "small vehicle", "large vehicle", "pickup", "trailer", "taxi"),
                  size_m=(2.2, 19.0), gsd_m=(0.05, 0.35), work_gsd_m=0.104, calibration=vehicle[0], scores=vehicle[1]),
        ClassCard(name="plane", synonyms=("airplane", "aeroplane", "aircraft"),
                  narrower=("jet", "airliner", "fighter", "military aircraft", "propeller plane", "bomber"),
                  size_m=(7.0, 80.0), gsd_m=(0.3, 1.2), work_gsd_m=0.5, experimental=True, calibration=plane[0], scores=plane[1]),
        ClassCard(name="ship", synonyms=("boat", "vessel", "watercraft"),
                  narrower=("yacht", "ferry", "cargo ship", "tanker", "warship", "sailing boat", "motorboat", "fishing boat"),
                  size_m=(4.0, 400.0), gsd_m=(0.3, 3.0), work_gsd_m=0.8, experimental=True, calibration=ship[0], scores=ship[1]),
    )
    general = {k: v for k, v in told.items() if k not in ("vehicle", "plane", "ship")}
    if outside:
        general["outside"] = dict(outside)
    card = ModelCard(
        name=name, title="Vehicles, planes and ships from above (YOLO11n)", version=version, task="detect", format="rsw",
        file=target.name, sha256=digest_file(target), bytes=target.stat().st_size, classes=classes, gsd_m=(0.05, 3.0),
        sensors="Aerial and drone cameras and satellite pictures in natural colours, seen from above",
        places="Munich, Minsk, one English scrapyard, airports and coasts not named, towns of the USA", tile_px=1280,
        licence="AGPL-3.0-or-later (architecture and warm start: Ultralytics YOLO11n, AGPL-3.0)", data=DETECTOR_DATA,
        scores=general, not_for=DETECTOR_NOT_FOR)
    return write_card(card, folder)


_HOMES = ("city", "town", "urban", "urban area", "built-up area")
_DWELLINGS = ("residential area", "residential")
_UCM_WORDS: dict[str, tuple[str, ...]] = {
    "agricultural": ("agricultural field", "cropland", "farmland", "agriculture", "field", "agricultural land"),
    "airplane": ("aeroplane", "parked airplane"), "baseballdiamond": ("baseball diamond", "baseball field"), "beach": (),
    "buildings": ("building", "commercial area", *_HOMES), "chaparral": ("shrubland",),
    "denseresidential": ("dense residential", *_DWELLINGS, *_HOMES), "forest": ("woodland",), "freeway": ("highway", "motorway"),
    "golfcourse": ("golf course",), "harbor": ("harbour", "port", "marina"), "intersection": ("crossroads",),
    "mediumresidential": ("medium residential", *_DWELLINGS, *_HOMES), "mobilehomepark": ("mobile home park",),
    "overpass": ("flyover",), "parkinglot": ("parking lot", "car park", "parking"), "river": (), "runway": (),
    "sparseresidential": ("sparse residential", *_DWELLINGS), "storagetanks": ("storage tank",), "tenniscourt": ("tennis court",)}
_CITY = ("city", "town", "urban", "urban area", "built-up", "built-up area", "settlement")
_FARMLAND = ("cropland", "crop", "farmland", "agriculture", "agricultural land", "agricultural area", "field")
_EUROSAT_WORDS: dict[str, tuple[str, ...]] = {
    "AnnualCrop": ("annual crop", *_FARMLAND), "Forest": ("woodland", "woods", "forest area"),
    "HerbaceousVegetation": ("herbaceous vegetation", "herbaceous"), "Highway": ("motorway", "freeway", "road"),
    "Industrial": ("industrial buildings", "industrial area", "factory", "commercial area", *_CITY),
    "Pasture": ("grassland", "meadow"), "PermanentCrop": ("permanent crop", "orchard", "vineyard", *_FARMLAND),
    "Residential": ("residential buildings", "residential area", "suburb", "village", *_CITY), "River": ("water", "water body"),
    "SeaLake": ("sea or lake", "sea", "lake", "water", "water body")}


_EUROSAT_DATA = (
    "EuroSAT RGB, all 27,000 tiles of 64 × 64 pixels at 10 m (Helber et al. 2019; MIT; Copernicus Sentinel-2 of level 1C)",
    ("Split by the SHA-256 of the file's name: 70 % train, 10 % val, 20 % test. Tiles of one Sentinel-2 scene, even neighbours, "
     "may lie on both sides, so expect less on other scenes than the test says."),
    ("Reflectance of bands 4, 3 and 2 from 0 to 0.275 became 1 to 255, as EuroSAT's makers said of their pictures (top of the "
     "atmosphere, no correction). The tool shows reflectance from 0 to 0.275 as 0 to 255."))
_EUROSAT_NOT_FOR = (
    "Other GSD than about 10 m, other sensors, clouds, snow, deserts, tundra, places outside Europe without a look by a person.",
    "Surface reflectance (level 2A) without a look by a person: it is darker, most of all in blue, than what the model learnt.",
    "Areas in a legal sense or statistics: a window of 640 m gets one kind although it may hold several.")


def scene_card(weights: Path, folder: Path, *, name: str, classes: list[str], scores: Mapping[str, Any], temperature: float,
               scope_threshold: float, scope_auroc: Mapping[str, float], version: str = "1") -> ModelCard:
    """The card of a classifier trained on UC Merced (names as there) or EuroSAT."""
    target = folder / f"{name}.rsw"
    if weights.resolve() != target.resolve():
        shutil.copyfile(weights, target)
    is_eurosat = "AnnualCrop" in classes
    words, gsd, work, tile = (_EUROSAT_WORDS, (8.0, 12.5), 10.0, 64) if is_eurosat else (_UCM_WORDS, (0.15, 0.6), 0.3, 256)
    card = ModelCard(
        name=name, title="Land cover of Sentinel-2 patches" if is_eurosat else "Kinds of place at 0.3 m", version=version,
        task="classify", format="rsw", file=target.name, sha256=digest_file(target), bytes=target.stat().st_size,
        classes=tuple(ClassCard(name=c, synonyms=words.get(c, ()), work_gsd_m=work, gsd_m=gsd) for c in classes), gsd_m=gsd,
        sensors="Sentinel-2, natural colours of level 1C" if is_eurosat else "Aerial pictures in natural colours",
        places="Cities and country of 34 European states" if is_eurosat else "Towns and country of the USA", tile_px=tile,
        sensor_words=("sentinel-2", "sentinel2") if is_eurosat else (),
        reflectance_range=(0.0, 0.275) if is_eurosat else None,
        licence=f"Data: {'MIT; Copernicus Sentinel-2' if is_eurosat else 'USGS, public domain'}; start: TensorFlow's "
                "EfficientNet-Lite0 on ImageNet (Apache-2.0; its wheel states none)",
        data=(_EUROSAT_DATA if is_eurosat else
              ("UC Merced Land Use (Yang & Newsam 2010; USGS National Map, public domain)",)),
        scores=dict(scores), temperature=temperature, scope_threshold=scope_threshold, scope_auroc=dict(scope_auroc),
        not_for=(_EUROSAT_NOT_FOR if is_eurosat else
                 ("Places outside the USA without a look by a person.", "Pictures of several kinds of place in one view.",
                  "Land use in a legal sense.")))
    return write_card(card, folder)
