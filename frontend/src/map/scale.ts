// The scale bar: a round length at the middle of the map, and none where the map has no one scale.
import * as L from "leaflet";
import { scaleStep, scaleVariation } from "./figures";

const WIDTH_PX = 110;
/** How much longer a pixel may be at one edge than at the other before a length of the middle misleads. */
const MOST_VARIED = 1.5;

export function hasOneScale(map: L.Map): boolean {
  const seen = map.getBounds();
  return scaleVariation(seen.getSouth(), seen.getNorth()) <= MOST_VARIED;
}

export function scaleBar(map: L.Map): void {
  const home = L.DomUtil.create("div", "leaflet-control-scale");
  const line = L.DomUtil.create("div", "leaflet-control-scale-line", home);
  const draw = (): void => {
    const y = map.getSize().y / 2;
    const most = map.distance(map.containerPointToLatLng([0, y]), map.containerPointToLatLng([WIDTH_PX, y]));
    home.hidden = !(most > 0) || !hasOneScale(map);
    if (home.hidden) return;
    const [metres, text] = scaleStep(most);
    line.style.width = `${Math.round((WIDTH_PX * metres) / most)}px`;
    line.textContent = text;
  };
  const control = new L.Control({ position: "bottomleft" });
  control.onAdd = () => home;
  control.addTo(map);
  map.on("move zoomend resize", draw);
  map.whenReady(draw);
}
