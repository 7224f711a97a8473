"""Quality bands: which scheme reads a scene's, and the option ``quality_mask`` of products written out as nodes of the graph.

A product with ``quality_mask`` ``auto`` becomes three nodes: the product, the mask of the flags, and the product without the
flagged pixels under the old name; so the evidence counts what was taken out as for any other graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from apps.core.errors import ModelError
from apps.core.evidence.observation import Frozen
from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import ExecuteArguments, Node
from apps.tools.execute.types import node_place

# The scheme that tells most goes first where a scene has several quality bands.
SCHEMES = ("sentinel2_scl", "landsat_c2", "landsat_c1", "landsat_precollection", "modis_state_1km", "mod13_reliability",
           "sentinel2_qa60")
# What each scheme can tell of clouds and their shadows, for the option's default.
DEFAULT_FLAGS: Mapping[str, tuple[str, ...]] = {
    "sentinel2_scl": ("cloud", "shadow", "cirrus"), "landsat_c2": ("cloud", "dilated_cloud", "shadow"),
    "landsat_c1": ("cloud", "shadow"), "landsat_precollection": ("cloud",), "modis_state_1km": ("cloud", "shadow"),
    "mod13_reliability": ("cloud", "snow"), "sentinel2_qa60": ("cloud", "cirrus")}


class QualityParams(Frozen):
    """The option of products that are made of one scene's bands."""

    quality_mask: Literal["none", "auto"] = Field(
        default="none", description="auto: pixels that the scene's own quality band flags are taken out")
    quality_flags: tuple[str, ...] = Field(
        default=(), max_length=8, description="none: cloud and shadow, as the scheme tells them")


def quality_band(scene: SceneInfo) -> Band | None:
    """The scene's quality band whose scheme is known (the most telling of several), or None."""
    held = [b for b in scene.bands if b.role == "qa" and b.scheme in SCHEMES]
    return min(held, key=lambda b: SCHEMES.index(b.scheme), default=None)


def expand_quality(arguments: ExecuteArguments, scenes: Sequence[SceneInfo]) -> ExecuteArguments:
    """The graph with the option written out. ModelError where the scene has no quality band whose scheme is known."""
    asking = [n for n in arguments.nodes if n.params.get("quality_mask", "none") == "auto"]
    if not asking:
        return arguments
    by_id = {s.scene_id: s for s in scenes}
    nodes = {n.id: n for n in arguments.nodes}
    out: list[Node] = []
    for node in arguments.nodes:
        if node not in asking:
            out.append(node)
            continue
        source = nodes.get(node.inputs[0]) if len(node.inputs) == 1 else None
        scene = by_id.get(str(source.params.get("scene"))) if source is not None and source.op == "asset.scene" else None
        if source is None or scene is None:
            raise ModelError("A quality_mask stands on a product of one scene.", code="BAD_ARGUMENT", place=node_place(node))
        band = quality_band(scene)
        if band is None:
            held = scene.bands_with_role("qa")
            why = "has a quality band, but how its bits are read is not known; use raster.product.qa_mask with a scheme" if held \
                else "has no quality band"
            raise ModelError(f"{scene.name} {why}.", code="NEEDS_BANDS", place=node_place(node),
                             needs={"roles": ["qa"], "scene": scene.scene_id})
        flags = _flags(node, band.scheme)
        plain: dict[str, Any] = {k: v for k, v in node.params.items() if k not in ("quality_mask", "quality_flags")}
        raw, mask = _fresh(nodes, node.id, "raw"), _fresh(nodes, node.id, "qa")
        out += [Node(id=raw, op=node.op, inputs=node.inputs, params=plain),
                Node(id=mask, op="raster.product.qa_mask", inputs=node.inputs,
                     params={"scheme": band.scheme, "flags": list(flags), "band": band.index}),
                Node(id=node.id, op="raster.product.apply_mask", inputs=(raw, mask),
                     params={"keep": "false", "quality": f"{', '.join(flags)} by {band.scheme}"[:80]})]
    return arguments.model_copy(update={"nodes": tuple(out)})


def _flags(node: Node, scheme: str) -> tuple[str, ...]:
    given = node.params.get("quality_flags")
    if given is None or given == []:
        return DEFAULT_FLAGS[scheme]
    if not isinstance(given, (list, tuple)) or not all(isinstance(f, str) for f in given):
        raise ModelError("The quality_flags are a list of names.", code="BAD_ARGUMENT", place=node_place(node))
    return tuple(str(f) for f in given)


def _fresh(nodes: Mapping[str, Node], name: str, end: str) -> str:
    """A name of at most 40 letters that no node has."""
    for k in range(100):
        found = f"{name[:34]}_{end}{k or ''}"
        if found not in nodes:
            return found
    raise ModelError("The graph's names leave no room for a quality mask.", code="BAD_PLAN")
