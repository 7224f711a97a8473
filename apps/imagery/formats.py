"""What a file is, told by its first bytes and its extension before GDAL sees it; pure Python.

One GDAL driver is pinned for each kind, so that a VRT or a WMS description named ``.tif`` is never handed to
a driver that would follow its paths and addresses. Header sizes are read here too, so that a picture of
100,000² pixels is refused unread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from apps.artifacts.ranges import RemoteBlob
from apps.core.errors import UserError
from apps.imagery.vector_kinds import TAKEN, kind_of_bytes, kind_of_name, refusal

# Uncompressed bytes (width × height × bands × bytes a sample) that one file may declare.
MAX_RASTER_BYTES = 24 * 2**30
# Pixels of a PNG or JPEG: their decoders hold whole rows or the whole picture.
MAX_PICTURE_PX = 400_000_000
MAX_SIDE_PX = 500_000
# A file that unpacks to more than BOMB_BYTES may not be smaller than 1/BOMB_RATIO of that: deflate reaches 1/1030.
BOMB_BYTES = 2**30
BOMB_RATIO = 5000
MAX_BANDS = 1000


@dataclass(frozen=True, slots=True)
class Format:
    """``driver`` is GDAL's name; ``suffix`` the extension that a server-made name gets."""

    name: str
    driver: str
    suffix: str
    extensions: tuple[str, ...]


TIFF = Format("GeoTIFF", "GTiff", ".tif", (".tif", ".tiff", ".gtiff", ".cog"))
JP2 = Format("JPEG 2000", "JP2OpenJPEG", ".jp2", (".jp2", ".j2k", ".jpx"))
PNG = Format("PNG", "PNG", ".png", (".png",))
JPEG = Format("JPEG", "JPEG", ".jpg", (".jpg", ".jpeg"))
NETCDF = Format("netCDF", "netCDF", ".nc", (".nc", ".nc4", ".cdf"))
FORMATS = (TIFF, JP2, PNG, JPEG, NETCDF)
_SHOWN = "GeoTIFF, COG, JPEG 2000, PNG, JPEG or netCDF"


def _unsafe(name: str, why: str) -> UserError:
    return UserError(
        "UNSAFE_FILE",
        f"“{name}” was refused.",
        why,
        f"Upload the pixels themselves, as {_SHOWN}.",
        status=415,
    )


def sniff(path: Path | RemoteBlob) -> Format | None:
    """The format told by the first bytes, or None."""
    with path.open("rb") as f:
        head = f.read(16)
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return TIFF
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return PNG
    if head[:3] == b"\xff\xd8\xff":
        return JPEG
    if head[4:8] == b"jP  " or head[:4] == b"\xff\x4f\xff\x51":
        return JP2
    if head[:8] == b"\x89HDF\r\n\x1a\n" or head[:4] in (b"CDF\x01", b"CDF\x02", b"CDF\x05"):
        return NETCDF
    return None


def format_of(path: Path, name: str) -> Format:
    """The format of a file, by its bytes *and* the extension of the name that the person gave.

    Raises UserError UNSAFE_FILE for descriptions that point elsewhere (VRT, WMS, other XML or JSON) and for
    an extension that contradicts the bytes, UNREADABLE for anything unknown or empty.
    """
    if path.stat().st_size == 0:
        raise UserError(
            "UNREADABLE", f"“{name}” is empty.", "It holds 0 bytes.", "Upload it again.", status=415
        )
    found = sniff(path)
    if found is None:
        with path.open("rb") as f:
            head = f.read(4096)
        other = kind_of_bytes(head) or kind_of_name(name)
        if other is not None:
            raise refusal(other, name)
        if (text := head.lstrip(b"\xef\xbb\xbf \t\r\n"))[:1] in (b"<", b"{", b"["):
            kind = (
                "a VRT"
                if b"VRTDataset" in text
                else "a GDAL web map description"
                if b"GDAL_W" in text
                else "a text description"
            )
            raise _unsafe(
                name,
                f"It is {kind}, not pixels: it could point elsewhere, so it is never opened.",
            )
        raise UserError(
            "UNREADABLE",
            f"“{name}” cannot be read.",
            "Its first bytes are of no format known here.",
            f"Convert an image to {_SHOWN}. Vector files are taken as {TAKEN}.",
            status=415,
        )
    suffix = Path(name).suffix.lower()
    if suffix and suffix not in found.extensions and any(suffix in f.extensions for f in FORMATS):
        raise _unsafe(name, f"Its name says {suffix[1:]}, its bytes say {found.name}.")
    if suffix in (".vrt", ".xml", ".ovr", ".aux", ".wms", ".json", ".msk"):
        raise _unsafe(name, f"{suffix} files describe or accompany other files; they are never opened.")
    return found


def picture_size(path: Path, kind: Format) -> tuple[int, int] | None:
    """(width, height) from the header of a PNG or JPEG, without decoding; None for other formats.

    Raises UserError UNREADABLE where the header is broken.
    """
    with path.open("rb") as f:
        if kind is PNG:
            head = f.read(24)
            if len(head) == 24 and head[12:16] == b"IHDR":
                width, height = struct.unpack(">II", head[16:24])
                return width, height
        elif kind is JPEG:
            f.seek(2)
            while True:
                mark = f.read(1)
                if not mark:
                    break
                if mark != b"\xff":
                    continue
                code = f.read(1)
                while code == b"\xff":
                    code = f.read(1)
                if not code or code == b"\xd9":
                    break
                if 0xC0 <= code[0] <= 0xCF and code[0] not in (0xC4, 0xC8, 0xCC):
                    part = f.read(7)
                    if len(part) == 7:
                        height, width = struct.unpack(">HH", part[3:7])
                        return width, height
                    break
                if code[0] in (0x01, *range(0xD0, 0xD9)):
                    continue
                length = f.read(2)
                if len(length) < 2:
                    break
                f.seek(max(0, struct.unpack(">H", length)[0] - 2), 1)
        else:
            return None
    raise UserError(
        "UNREADABLE",
        "The picture cannot be read.",
        f"Its {kind.name} header is broken or cut off.",
        "Export it again from where it came.",
        status=415,
    )


def check_size(width: int, height: int, n_bands: int, itemsize: int, name: str, n_bytes: int | None = None) -> None:
    """Refuses (UserError TOO_LARGE) what would not fit, before any pixel is read; ``n_bytes`` is the size of the file."""
    total = width * height * n_bands * itemsize
    if width < 1 or height < 1 or n_bands < 1:
        raise UserError(
            "UNREADABLE",
            f"“{name}” holds no pixels.",
            f"It declares {width} × {height} pixels and {n_bands} bands.",
            "Export it again from where it came.",
            status=415,
        )
    if max(width, height) > MAX_SIDE_PX or n_bands > MAX_BANDS or total > MAX_RASTER_BYTES:
        raise UserError(
            "TOO_LARGE",
            f"“{name}” is too large.",
            f"It declares {width:,} × {height:,} pixels in {n_bands} bands: "
            f"{total / 2**30:,.1f} GiB unpacked; the limit is {MAX_RASTER_BYTES / 2**30:.0f} GiB.",
            "Cut it into parts and upload those.",
            status=413,
        )
    if n_bytes is not None and total > BOMB_BYTES and total > BOMB_RATIO * n_bytes:
        raise UserError(
            "TOO_LARGE",
            f"“{name}” declares far more than it holds.",
            f"{n_bytes:,} bytes would unpack to {total / 2**30:,.1f} GiB.",
            "Cut the empty parts off and upload the rest.",
            status=413,
        )


def check_picture(path: Path, kind: Format, name: str) -> None:
    """Refuses (UserError TOO_LARGE) a PNG or JPEG whose header declares too many pixels."""
    size = picture_size(path, kind)
    if size is not None and size[0] * size[1] > MAX_PICTURE_PX:
        raise UserError(
            "TOO_LARGE",
            f"“{name}” is too large.",
            f"Its header declares {size[0]:,} × {size[1]:,} pixels; "
            f"a {kind.name} may hold {MAX_PICTURE_PX:,}.",
            "Cut it into parts, or convert it to a GeoTIFF.",
            status=413,
        )
