"""What each band of a scene is, by its name, the file's or a person's word; none by its position. Pure."""

from __future__ import annotations

from datetime import datetime

from apps.core.errors import UserError
from apps.core.geo.bands import Band, RoleSource
from apps.imagery import profiles
from apps.imagery.facts import RasterFacts
from apps.imagery.findings import CODES, Check, Fix, begun, shown_bands
from apps.imagery.inspect_scale import S2_DTYPES, is_landsat_level1, scaled


def valid_ranges(facts: RasterFacts, name: str) -> list[tuple[float, float] | None]:
    """The range of meaningful stored values of each band, where the file or its product tells one."""
    is_mod13 = profiles.mod13_role(name, facts.dtype, len(facts.bands)) is not None
    by_product = [c.valid_range if c is not None else None for c in codings_of(facts, name)]
    return [
        b.valid_range or p or (profiles.MOD13_RANGE if is_mod13 else None) for b, p in zip(facts.bands, by_product, strict=True)
    ]


def codings_of(facts: RasterFacts, name: str) -> list[profiles.Coding | None]:
    """How the product stores each band, by the band's own name, or the file's where it holds one band."""
    names = [b.description for b in facts.bands]
    if len(names) == 1 and profiles.coding_of(names[0], facts.dtype) is None:
        names = [profiles.product_name_band(name) or ""]
    return [profiles.coding_of(n, facts.dtype) for n in names]


def bands_of(check: Check, when: datetime | None) -> list[Band]:
    """The bands with role, unit, scale, nodata and scheme; their findings are added."""
    facts, n = check.facts, len(check.facts.bands)
    if check.hints.roles and max(check.hints.roles.values()) > n:
        raise UserError(
            "BAD_ARGUMENT", "A band was named that is not there.",
            f"The highest was {max(check.hints.roles.values())}; the file has {n}.", f"Use 1 to {n}.",
        )  # fmt: skip
    told = profiles.told_profile(check.name, [f"{v}" for v in facts.tags.values()])
    names = [profiles.band_name(b.description) for b in facts.bands]
    written = [b.description for b in facts.bands]
    if n == 1 and names[0] is None:
        names = [profiles.name_band(check.name)]
        written = [profiles.product_name_band(check.name) or ""]
        by: RoleSource = "name"
    else:
        by = "profile"
    check.codings = codings_of(facts, check.name)
    profile = profiles.profile_of(names, told, written)
    if profile is not None:
        check.profile = profile
        check.sensor, check.sensor_source = profile.sensor, "profile"
    elif told is not None:
        check.sensor, check.sensor_source = told.sensor, "name"
    mod13 = profiles.mod13_role(check.name, facts.dtype, n)
    if mod13:
        check.sensor, check.sensor_source = profiles.MOD13_SENSOR, "profile"
    by_product = {c.sensor for c in check.codings if c is not None and c.sensor}
    if not check.sensor and len(by_product) == 1:
        check.sensor, check.sensor_source = by_product.pop(), "profile"
    if not check.sensor and profiles.SENTINEL1_NAME.search(check.name):
        check.sensor, check.sensor_source = "Sentinel-1 SAR", "name"
    if check.hints.sensor:
        check.sensor, check.sensor_source = check.hints.sensor, "person"
    by_person = {index: role for role, index in (check.hints.roles or {}).items()}
    bands = []
    at_odds: list[str] = []
    for i, fact in enumerate(facts.bands):
        role, source, wavelength = _role(check, i, names[i], by, mod13)
        if i + 1 in by_person:
            role, source = by_person[i + 1], "person"
        elif role in (check.hints.roles or {}):
            role, source, wavelength = "unknown", "unknown", None  # the person gave that role to another band
        elif fact.wavelength_nm is not None and not profiles.is_of_wavelength(role, fact.wavelength_nm):
            at_odds.append(f"band {i + 1} is called {role} and has {fact.wavelength_nm:.0f} nm")
            role, source, wavelength = "unknown", "unknown", None
        # what a person or a file says of the values is said of what was measured, not of the codes that lie beside it
        is_measured = role not in CODES
        bands.append(
            Band(
                index=i + 1,
                role=role,
                role_source=source,
                unit=(check.hints.unit if is_measured else None) or profiles.unit_of(fact.unit) or "DN",
                scale=1.0 if not is_measured else check.hints.scale if check.hints.scale is not None else fact.scale,
                offset=0.0 if not is_measured else check.hints.offset if check.hints.offset is not None else fact.offset,
                nodata=fact.nodata,
                valid_range=fact.valid_range,
                description=fact.description[:200],
                wavelength_nm=wavelength,
                native_gsd_m=fact.native_gsd_m,
                resampled=fact.resampled,
                is_amplitude=check.facts.is_amplitude,
                scheme=_scheme(check, i) if role == "qa" else "",
            )
        )
    bands = _unseen(check, scaled(check, bands, mod13, when))
    _roles_finding(check, bands)
    if at_odds:
        check.add(
            "wavelengths", "Wavelengths", "warn", "names and wavelengths contradict",
            f"By the file {'; '.join(at_odds[:6])}. One of the two is wrong, so these bands have no role until somebody says "
            "it.", Fix(label="Edit roles", field="roles"), code="NEEDS_BANDS",
        )  # fmt: skip
    return bands


def _unseen(check: Check, bands: list[Band]) -> list[Band]:
    """Nodata that a product has by its guide and its files do not declare: 0 where nothing was seen, beside the swath, around
    the tilted frame, in gaps (USGS, Landsat level 1; ESA, Sentinel-2 products specification, special values). Of Sentinel-2
    in files named as ESA names them, in files of one band, and where 0 would be a reflectance of -0.1; in other stacks, which
    may have been worked on, 0 is told and asked about as anywhere."""
    dtype = check.facts.dtype
    if check.hints.fill == "is_real":
        return bands
    if is_landsat_level1(check, bands) or profiles.is_older_landsat_level1(check.name, dtype):
        is_fill, is_sure = check.profile is not None, True
    else:
        is_fill = check.profile is profiles.SENTINEL2 and dtype in S2_DTYPES
        is_sure = profiles.is_sentinel2_product(check.name) or len(shown_bands(bands)) == 1
    return [b.model_copy(update={"nodata": 0.0})
            if is_fill and b.nodata is None and b.role not in (*CODES, "unknown") and (is_sure or b.offset < 0) else b
            for b in bands]  # fmt: skip


def _scheme(check: Check, i: int) -> str:
    coding = check.codings[i]
    if coding is None or coding.scheme:
        return coding.scheme if coding is not None else ""
    return profiles.bqa_scheme(check.counts.bands[i].high if i < len(check.counts.bands) else None)


def _role(check: Check, i: int, name: str | None, by: RoleSource, mod13: str | None) -> tuple[str, RoleSource, float | None]:
    fact = check.facts.bands[i]
    if fact.color == "alpha":
        return "alpha", "declared", None
    if check.profile is not None and name is not None:
        role, wavelength = check.profile.bands[name]
        return role, by, wavelength
    coding = check.codings[i]
    if coding is not None and coding.role:
        return coding.role, "profile" if coding.role != "unknown" else "unknown", coding.wavelength_nm
    word = profiles.word_role(fact.description)
    if word is not None:
        return word, "declared", None
    if mod13:
        return mod13, "profile", None
    if fact.color == "palette":
        return "class", "declared", None
    colors = [b.color for b in check.facts.bands]
    if fact.color in ("red", "green", "blue") and colors.count(fact.color) == 1 and set(colors) >= {"red", "green", "blue"}:
        return fact.color, "declared", None
    if fact.color == "gray" and check.facts.is_picture:
        return "gray", "declared", None
    if len(colors) == 1:
        word = profiles.index_in_name(check.name)
        if word is not None:
            return word, "name", None
    return "unknown", "unknown", None


def _roles_finding(check: Check, bands: list[Band]) -> None:
    ask = Fix(label="Edit roles", field="roles")
    shown = [b for b in bands if b.role != "alpha"]
    open_ = [b for b in shown if b.role == "unknown"]
    sources = {b.role_source for b in shown if b.role != "unknown"}
    how = {
        "person": "given by a person", "profile": f"by the band names of {check.sensor or 'the product'}",
        "name": f"by the file's name ({check.sensor})" if check.sensor else "by the file's name",
        "declared": "declared in the file",
    }  # fmt: skip
    listed = ", ".join(b.role for b in shown[:13]) + (" …" if len(shown) > 13 else "")
    if not open_:
        check.add("roles", "Band roles", "ok", listed, begun(f"{' and '.join(how[s] for s in sorted(sources))}."), ask)
        return
    if len(shown) == 1:
        check.add(
            "roles", "Band role", "warn", "not known",
            "The file does not say what its one band is. Statistics work; name it for questions about an index or class.",
            ask, code="NEEDS_BANDS",
        )  # fmt: skip
        return
    rest = "none of its bands" if len(open_) == len(shown) else f"bands {', '.join(str(b.index) for b in open_[:8])} not"
    named = [b.description for b in open_ if b.description]
    seen = f" It calls them {', '.join(named[:6])}: several sensors use these names." if named else ""
    check.add(
        "roles", "Band roles", "warn", "not known" if len(open_) == len(shown) else listed,
        f"The file names {rest}.{seen} Questions about indices stay closed until somebody says which is red, "
        "near infrared and so on; nothing is guessed by position.", ask, code="NEEDS_BANDS",
    )  # fmt: skip
