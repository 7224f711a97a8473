// A drag over the map by mouse, pen or finger: Leaflet tells of the mouse alone. What lies under it and has a drag of its own
// (a mark, a control) is left to itself; a second finger is none of it.
import type * as L from "leaflet";

export interface Strokes {
  press(at: L.LatLng, isShifted: boolean): void;
  move(at: L.LatLng): void;
  release(at: L.LatLng): void;
  /** The browser took the finger for something else. */
  drop(): void;
}

export function followStrokes(map: L.Map, isOn: () => boolean, to: Strokes): void {
  const home = map.getContainer();
  let pointer: number | null = null;
  home.addEventListener("pointerdown", (event) => {
    if (!isOn() || pointer !== null || event.button !== 0 || !event.isPrimary) return;
    if (event.target instanceof Element && event.target.closest(".leaflet-marker-icon, .leaflet-control")) return;
    pointer = event.pointerId;
    // what ends outside the map ends here all the same
    home.setPointerCapture(pointer);
    to.press(map.mouseEventToLatLng(event), event.shiftKey);
  });
  home.addEventListener("pointermove", (event) => {
    if (event.pointerId === pointer) to.move(map.mouseEventToLatLng(event));
  });
  const end = (event: PointerEvent): void => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    if (event.type === "pointerup") to.release(map.mouseEventToLatLng(event));
    else to.drop();
  };
  home.addEventListener("pointerup", end);
  home.addEventListener("pointercancel", end);
}
