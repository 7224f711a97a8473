// The ground under imagery: land outline (Natural Earth 1:110m, public domain, shipped) and graticule.
// No map service is asked.
import * as L from "leaflet";
import { degrees, graticuleStep } from "./config";

export async function landOutline(map: L.Map, url: string): Promise<void> {
  const response = await fetch(url);
  if (!response.ok) return;
  const pane = map.createPane("land");
  pane.classList.add("pane-ground");
  L.geoJSON((await response.json()) as GeoJSON.GeoJsonObject, {
    pane: "land",
    interactive: false,
    style: { className: "land", stroke: true, fill: true },
    attribution: "Land: Natural Earth",
  }).addTo(map);
}

export function graticule(map: L.Map): void {
  map.createPane("graticule").classList.add("pane-ground");
  // the lines lie under imagery, their figures over it: half a coordinate reads as another one
  map.createPane("graticule-labels");
  const group = L.layerGroup().addTo(map);
  const draw = (): void => {
    group.clearLayers();
    const bounds = map.getBounds();
    const step = graticuleStep(Math.max(bounds.getEast() - bounds.getWest(), bounds.getNorth() - bounds.getSouth()), map.getSize().x);
    const [south, north] = [Math.max(-85, bounds.getSouth()), Math.min(85, bounds.getNorth())];
    const line = (points: [number, number][]): void => {
      L.polyline(points, { pane: "graticule", className: "graticule", interactive: false }).addTo(group);
    };
    // a label that would lie under a button is left out; its line is there all the same
    const home = map.getContainer();
    const origin = home.getBoundingClientRect();
    const covers = [...(home.closest(".mapbox")?.querySelectorAll(".mapctl") ?? [])].map((box) => box.getBoundingClientRect());
    const label = (at: [number, number], text: string, side: string): void => {
      const place = map.latLngToContainerPoint(at);
      const [left, top] = [origin.left + place.x, origin.top + place.y + (side === "gl-left" ? -16 : 0)];
      const right = left + 12 + 6 * text.length;
      if (covers.some((box) => left < box.right + 2 && right > box.left - 2 && top < box.bottom + 2 && top + 16 > box.top - 2)) return;
      L.marker(at, {
        interactive: false,
        keyboard: false,
        pane: "graticule-labels",
        icon: L.divIcon({ className: "graticule-label", html: `<span class="${side}">${text}</span>`, iconSize: [0, 0] }),
      }).addTo(group);
    };
    for (let k = Math.ceil(bounds.getWest() / step); k * step <= bounds.getEast(); k += 1) {
      line([
        [south, k * step],
        [north, k * step],
      ]);
      label([north, k * step], degrees(k * step, step, "lon"), "gl-top");
    }
    for (let k = Math.ceil(south / step); k * step <= north; k += 1) {
      line([
        [k * step, bounds.getWest()],
        [k * step, bounds.getEast()],
      ]);
      label([k * step, bounds.getWest()], degrees(k * step, step, "lat"), "gl-left");
    }
  };
  map.on("moveend resize", draw);
  draw();
}
