"""What plans of physical quantities are made of: coefficients in the words, the scene that has the bands, nodes of retrievals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.agent.planner.analyses import Asked
from apps.agent.planner.analysis_pieces import AnalysisPieces, Nodes
from apps.agent.planner.fields import RefusalError
from apps.agent.planner.lexicon import missing_roles, role_list
from apps.agent.planner.physical_words import COEFFICIENTS
from apps.core.evidence.plan import Question
from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo


@dataclass(slots=True)
class Product:
    """A quantity on its way: the nodes, the last one's name, what it is called, and the scenes that it is made of."""

    nodes: Nodes
    last: str
    title: str
    scenes: tuple[SceneInfo, ...]
    unit: str = "1"
    notes: list[str] = field(default_factory=list)


class PhysicalPieces(AnalysisPieces):
    """What plans of physical quantities share."""

    def __init__(self, question: Question, asked: Asked) -> None:
        super().__init__(question, asked)
        self._used: set[str] = set()

    def _given(self) -> dict[str, float]:
        names = "|".join(f"(?P<n{i}>{words})" for i, words in enumerate(COEFFICIENTS))
        keys = list(COEFFICIENTS.values())
        out = {}
        for m in re.finditer(rf"\b(?:{names})(?: of| =| is|:)? ?(?P<v>-?\d+(?:\.\d+)?(?:e-?\d+)?)", self.asked.get("given")):
            name = next(keys[int(k[1:])] for k, v in m.groupdict().items() if k != "v" and v)
            out[name] = float(m["v"])
        return out

    def _coefficient(self, name: str) -> float | None:
        """The number that the words give, or None."""
        value = self._given().get(name)
        if value is not None:
            self._used.add(name)
        return value

    def _with(self, *names: str, why: str) -> SceneInfo:
        """The one scene that has what all these bands and indices need."""
        held = [s for s in self._capable() if not any(missing_roles(s, n) for n in names)]
        if not held:
            best = min(self._capable(), key=lambda s: sum(len(missing_roles(s, n)) for n in names))
            lacking = list(dict.fromkeys(r for n in names for r in missing_roles(best, n)))
            raise RefusalError(
                f"{why} needs the band{'s' * (len(lacking) > 1)} {role_list(lacking)}; {best.name} does not have "
                f"{'them' if len(lacking) > 1 else 'it'}. Say which band is which, or add it to the image.",
                "NEEDS_BANDS",
                {"roles": lacking},
            )
        kept, self.form = self.form, self.form.model_copy(update={"scenes": tuple(s.scene_id for s in held)})
        try:
            return self._one()
        finally:
            self.form = kept

    def _band(self, scene: SceneInfo, role: str) -> Band:
        held = scene.bands_with_role(role)
        if len(held) != 1:
            raise RefusalError(f"{len(held)} bands of {scene.name} are called {role}; say which one is meant.", "NEEDS_BANDS",
                               {"roles": [role]})  # fmt: skip
        return held[0]

    def _scene_node(self, nodes: Nodes, scene: SceneInfo) -> str:
        """The node of a scene, made once."""
        for n in nodes:
            if n["op"] == "asset.scene" and n["params"]["scene"] == scene.scene_id:
                return str(n["id"])
        name = f"s{sum(n['op'] == 'asset.scene' for n in nodes) + 1}"
        nodes.append(self._node("asset.scene", (), name, scene=scene.scene_id))
        return name

    def _take(self, nodes: Nodes, scene: SceneInfo, quantity: str, name: str) -> str:
        """A band or index of a scene as node ``name``. Flagged pixels are left out of the first of a scene alone, where that is
        asked: what is made of several has none where one has none, and each pixel that is left out counts once."""
        (_, made), _ = self._quantity_nodes(scene, "0", quantity)
        source = self._scene_node(nodes, scene)
        params = dict(made["params"])
        if any(source in n["inputs"] for n in nodes):
            params = {k: v for k, v in params.items() if k not in ("quality_mask", "quality_flags")}
        nodes.append({**made, "id": name, "inputs": [source], "params": params})
        return name

    def _retrieval(self, nodes: Nodes, name: str, retrieval: str, inputs: Mapping[str, str], **coefficients: float) -> str:
        nodes.append(self._node("raster.product.retrieval", list(dict.fromkeys(inputs.values())), name, name=retrieval,
                                inputs=dict(inputs), coefficients=coefficients))  # fmt: skip
        return name

    def _reflects(self, scene: SceneInfo, what: str, roles: tuple[str, ...]) -> None:
        for role in roles:
            held = next((b for r in (role, "nir08" if role == "nir" else role) for b in scene.bands_with_role(r)), None)
            if held is None or held.unit != "reflectance":
                unit = "nothing that is known" if held is None else held.unit
                raise RefusalError(
                    f"{what} is made of reflectance; the {role} band of {scene.name} is in {unit}. Say its scale and offset, and "
                    "that its unit is reflectance.",
                    "NEEDS_BANDS",
                    {"unit": "reflectance", "scene": scene.scene_id},
                )

    def _check_ndvi(self, scene: SceneInfo) -> None:
        """Limits of NDVI for soil and plants are those of reflectance: stored numbers with an offset have another NDVI."""
        if "ndvi" in scene.roles:
            return
        for role in ("red", "nir"):
            held = next(b for r in (role, "nir08" if role == "nir" else role) for b in scene.bands_with_role(r))
            if not held.unit.startswith("reflectance"):
                raise RefusalError(
                    f"Soil and plants are told apart by the NDVI of reflectance; the {role} band of {scene.name} is in "
                    f"{held.unit}. Say "
                    "its scale and offset and that its unit is reflectance, or write “with emissivity 0.98”.",
                    "NEEDS_BANDS",
                    {"unit": "reflectance", "scene": scene.scene_id},
                )
