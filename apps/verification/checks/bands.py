"""Bands that are called by each other's names: by what ground reflects, by how bands go together, by wavelengths and by the names
that files give them."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import mapping_entries
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError, Plane

# Fewer pixels than these say nothing of how bands go together.
_LEAST_PX = 400


@check(
    "red_and_nir_as_ground_reflects",
    catches=("wrong pairing or band",),
    limits=("red_over_nir_share", "red_leads_share", "red_leads_apart", "nir_apart", "full_look_px"),
    reads=("/evidence/source/band_mapping", "/inputs"),
    family="plausibility",
)
def red_and_nir_as_ground_reflects(case: Case) -> Finding:
    """Red goes with green and blue, and near infrared less so; no ground reflects red more than twice as much as green and near
    infrared. Where it is the other way round, the band that is called red is the infrared one."""
    names: dict[str, set[str]] = {}
    for _, scene_id, role, _ in mapping_entries(case):
        names.setdefault(scene_id or (case.used_scenes[0].scene_id if len(case.used_scenes) == 1 else ""), set()).add(role)
    for scene_id, roles in names.items():
        scene = case.scenes.get(scene_id)
        if (
            scene is None
            or not {"red", "nir"} & roles
            or any(len(scene.bands_with_role(r)) != 1 for r in ("red", "nir", "green"))
        ):
            continue
        if scene.grid.width * scene.grid.height > case.limits.full_look_px:
            return not_applicable("the scene is larger than it is looked at")
        visible = ("green", "blue") if len(scene.bands_with_role("blue")) == 1 else ("green",)
        try:
            held = look_of(case).bands(scene, ("red", "nir", *visible), (0, 0, scene.grid.width, scene.grid.height))
        except CannotLookError as why:
            return not_applicable(str(why))
        valid = np.logical_and.reduce([p.valid & (p.data > 0) for p in held.values()])
        if valid.sum() < _LEAST_PX:
            continue
        return _exchanged(case, held, valid, visible)
    return not_applicable("no scene with green, red and near infrared in use")


def _exchanged(case: Case, held: dict[str, Plane], valid: NDArray[np.bool_], visible: tuple[str, ...]) -> Finding:
    red, nir, green = (held[r].data[valid] for r in ("red", "nir", "green"))
    limits, at = case.limits, ("/evidence/source/band_mapping", "/inputs")
    far = float(((red > 2 * nir) & (red > 2 * green)).mean())
    leads = float(((red > 1.3 * nir) & (red > 1.3 * green)).mean())
    # by how much what is called near infrared goes with each visible band more than what is called red does
    apart = min(_correlation(nir, held[v].data[valid]) - _correlation(red, held[v].data[valid]) for v in visible)
    measured = {"brighter in red": round(far, 4), "nir over red with visible bands": round(apart, 4)}
    if far > limits.red_over_nir_share:
        return failed(
            "Most of the scene is more than twice as bright in red as in green and in near infrared, as no ground is; the "
            "bands' names may be exchanged.",
            measured=measured,
            expected=f"≤ {limits.red_over_nir_share:g}",
            at=at,
        )
    if (len(visible) > 1 and apart > limits.nir_apart) or (leads > limits.red_leads_share and apart > limits.red_leads_apart):
        return failed(
            "What is called near infrared goes with green and blue more than what is called red does, and not the other way "
            "round; the bands' names may be exchanged.",
            measured=measured,
            expected=f"≤ {limits.nir_apart:g}",
            at=at,
        )
    return passed("Red and near infrared are as ground reflects them.", measured=measured, at=at)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean() / spread) if spread > 0 else 0.0


# Where the middle of a band of a role lies, in nanometres, on every sensor that has one.
_NANOMETRES = {
    "coastal": (400.0, 460.0),
    "blue": (430.0, 530.0),
    "green": (500.0, 605.0),
    "yellow": (570.0, 630.0),
    "red": (610.0, 700.0),
    "nir": (740.0, 1100.0),
    "nir08": (780.0, 1100.0),
    "swir1": (1500.0, 1800.0),
    "swir2": (1900.0, 2500.0),
}
_WORDS = {
    "nir": re.compile(r"\bnir\b|near[ -_]?infra[ -]?red", re.I),
    "red": re.compile(r"\bred\b(?![ -_]?edge)", re.I),
    "green": re.compile(r"\bgreen\b", re.I),
    "blue": re.compile(r"\bblue\b", re.I),
    "swir1": re.compile(r"\bswir[ -_]?1\b", re.I),
    "swir2": re.compile(r"\bswir[ -_]?2\b", re.I),
}
_OF_SENSOR = (
    (re.compile(r"sentinel[ -]?2", re.I), {"2": "blue", "3": "green", "4": "red", "8": "nir", "11": "swir1", "12": "swir2"}),
    (re.compile(r"landsat[ -]?[89]", re.I), {"2": "blue", "3": "green", "4": "red", "5": "nir", "6": "swir1", "7": "swir2"}),
    (re.compile(r"landsat[ -]?[4-7]\b", re.I), {"1": "blue", "2": "green", "3": "red", "4": "nir", "5": "swir1", "7": "swir2"}),
)
_NUMBERED = re.compile(r"(?:^|[_ -])B0?(\d{1,2}A?)\b", re.I)


def _named(scene: SceneInfo, band: Band) -> str:
    """The role that a band's name in its file says plainly; '' where it says none or several."""
    text = band.description or (scene.name.rsplit(".", 1)[0] if len(scene.bands) == 1 else "")
    found = {
        role for role, pattern in _WORDS.items() if pattern.search(re.sub(r"near[ -_]?infra[ -]?red", "nir", text, flags=re.I))
    }
    if len(found) == 1:
        return found.pop()
    number = _NUMBERED.search(text)
    if found or number is None:
        return ""
    return next((roles.get(number[1], "") for sensor, roles in _OF_SENSOR if sensor.search(scene.sensor)), "")


@check(
    "bands_as_files_name_them",
    catches=("wrong pairing or band", "wrong band mapping"),
    reads=("/evidence/source/band_mapping", "/inputs"),
    family="radiometry",
)
def bands_as_files_name_them(case: Case) -> Finding:
    """The bands that a formula reads have the wavelength of their role, and none carries the name of another role in its file."""
    at = ("/evidence/source/band_mapping", "/inputs")
    seen = 0
    for pointer, scene_id, role, index in mapping_entries(case):
        scene = case.scenes.get(scene_id) or (case.used_scenes[0] if len(case.used_scenes) == 1 else None)
        band = next((b for b in scene.bands if b.index == index), None) if scene is not None else None
        if scene is None or band is None or role not in _NANOMETRES:
            continue
        low, high = _NANOMETRES[role]
        if band.wavelength_nm is not None:
            seen += 1
            if not low <= band.wavelength_nm <= high:
                return failed(
                    f"Band {index} stands for {role}, at a wavelength that {role} has on no sensor.",
                    measured=band.wavelength_nm,
                    expected=[low, high],
                    unit="nm",
                    at=(pointer, *at[1:]),
                )
        name = _named(scene, band)
        seen += bool(name)
        if name and name != role and not (name == "nir" and role == "nir08"):
            return failed(
                f"Band {index} stands for {role}, and its file calls it {name}.",
                measured=name,
                expected=role,
                at=(pointer, *at[1:]),
                # a person who was asked knows more than a name
                severity="warn" if band.role_source == "person" else None,
            )
    return (
        passed("The bands are what their files call them.", measured=seen, at=at) if seen else not_applicable("no band is named")
    )
