// Measuring on the map: clicks or typed positions become a line and, from three on, an area. On a map with a CRS the server says the
// geodesic figures (pyproj); on a picture without one they are planar, in pixels and, where the GSD is known, in metres.
import * as L from "leaflet";
import { type Figures, type Position, crosses, digits, planar, positionsOf, sentence } from "./figures";

export class Measurement {
  isOn = false;
  private points: Position[] = [];
  private turn = 0;
  private readonly group = L.featureGroup();
  private readonly field: HTMLInputElement | null;
  private readonly output: HTMLOutputElement | null;

  constructor(
    private readonly map: L.Map,
    private readonly panel: HTMLFormElement,
    private readonly crs: "geo" | "image",
    private readonly gsd: () => number | null,
    private readonly onState: () => void,
  ) {
    this.group.addTo(map);
    this.field = panel.querySelector("input[name=points]");
    this.output = panel.querySelector("output");
    map.on("click", (event: L.LeafletMouseEvent) => {
      if (this.isOn) this.add(event.latlng);
    });
    panel.addEventListener("submit", (event) => {
      event.preventDefault();
      this.typed();
    });
    document.addEventListener("keydown", (event) => {
      if (!this.isOn || event.defaultPrevented) return;
      if (event.key === "Escape") this.set(false);
      else if (event.key === "Backspace" && event.target !== this.field) {
        this.points.pop();
        this.show();
      } else return;
      event.preventDefault();
    });
  }

  set(isOn: boolean): void {
    if (this.isOn === isOn) return;
    this.isOn = isOn;
    this.panel.hidden = !isOn;
    this.map.getContainer().classList.toggle("is-drawing", isOn);
    if (isOn) this.map.doubleClickZoom.disable();
    else this.map.doubleClickZoom.enable();
    this.clear();
    this.onState();
  }

  clear(): void {
    this.points = [];
    this.show();
  }

  private add(at: L.LatLng): void {
    const point: Position = this.crs === "geo" ? [round(at.lng, 6), round(at.lat, 6)] : [round(at.lng, 1), round(at.lat, 1)];
    const last = this.points.at(-1);
    if (last && last[0] === point[0] && last[1] === point[1]) return;
    this.points.push(point);
    this.show();
  }

  private typed(): void {
    const points = positionsOf(this.field?.value ?? "");
    if (!points) {
      this.say("That is no list of positions. Write them as x,y with ; between.");
      return;
    }
    this.points = points;
    this.show();
    if (points.length > 1) this.map.fitBounds(L.latLngBounds(this.latlngs()).pad(0.2));
  }

  private latlngs(): L.LatLng[] {
    return this.points.map(([x, y]) => L.latLng(y, x));
  }

  private show(): void {
    this.group.clearLayers();
    const at = this.latlngs();
    for (const className of ["geo-halo", "geo-core measure"]) {
      if (at.length > 2) L.polygon(at, { className, fill: false, interactive: false }).addTo(this.group);
      else if (at.length > 1) L.polyline(at, { className, interactive: false }).addTo(this.group);
    }
    for (const point of at) L.circleMarker(point, { radius: 4, className: "geo-core point", interactive: false }).addTo(this.group);
    if (this.field) this.field.value = this.points.map((p) => p.join(",")).join("; ");
    void this.figure();
  }

  private async figure(): Promise<void> {
    const turn = (this.turn += 1);
    const n = this.points.length;
    if (n < 2) {
      this.say(n === 0 ? "Click on the map, or type positions." : "Click the next position.");
      return;
    }
    if (this.crs === "image") {
      this.say(this.inPixels());
      return;
    }
    const points = this.points.map(([lon, lat]) => `${lon},${lat}`).join(";");
    try {
      const response = await fetch(`${this.panel.action}?points=${encodeURIComponent(points)}`, { credentials: "same-origin" });
      if (turn !== this.turn) return;
      this.say(
        response.ok
          ? sentence((await response.json()) as Figures, n)
          : "These positions cannot be measured: longitude from −360 to 360, latitude from −90 to 90.",
      );
    } catch {
      if (turn === this.turn) this.say("The server did not answer; nothing was measured.");
    }
  }

  private inPixels(): string {
    const { length, perimeter, area } = planar(this.points);
    const gsd = this.gsd();
    if (gsd) {
      const figures: Figures = { length_m: length * gsd, method: `planar, GSD ${gsd} m` };
      if (this.points.length > 2) {
        figures.perimeter_m = perimeter * gsd;
        figures.area_m2 = area * gsd * gsd;
        figures.is_crossing = crosses(this.points);
      }
      return sentence(figures, this.points.length);
    }
    const parts = [`Line ${digits(length, 5)} px`];
    if (this.points.length > 2) parts.push(crosses(this.points) ? "the outline crosses itself: no area" : `area ${digits(area, 6)} px²`);
    return `${parts.join(" · ")}; no GSD, so no metres`;
  }

  private say(text: string): void {
    if (this.output) this.output.textContent = text;
  }
}

function round(value: number, places: number): number {
  return Math.round(value * 10 ** places) / 10 ** places;
}
