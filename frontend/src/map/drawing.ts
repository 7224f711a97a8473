// Region drawing: a rectangle by dragging, a polygon by clicks (the first corner again, a double click or Enter ends; Esc drops
// what was begun, and ends where nothing was; Backspace takes the last corner back). The result is a GeoJSON geometry in a form field, which is
// the twin: what is pasted there is drawn here.
import * as L from "leaflet";
import { geometryOf } from "./config";
import { followStrokes } from "./strokes";

// A click so near to the first corner closes a polygon: screen pixels.
const CLOSE_PX = 14;

export type Shape = "rectangle" | "polygon";
export class Drawing {
  onState: (shape: Shape | null) => void = () => undefined;
  /** Told what to do next, or nothing when nothing is drawn. */
  onSay: (text: string) => void = () => undefined;
  private field: HTMLInputElement | HTMLTextAreaElement | null = null;
  private shape: Shape | null = null;
  private corners: L.LatLng[] = [];
  private readonly group = L.featureGroup();
  private readonly pending = L.featureGroup();

  constructor(
    private readonly map: L.Map,
    selector: string | null,
  ) {
    this.group.addTo(map);
    this.pending.addTo(map);
    followStrokes(map, () => this.shape !== null, {
      press: (at) => this.press(at),
      move: (at) => this.move(at),
      release: (at) => (this.shape === "polygon" ? this.corner(at) : this.release(at)),
      drop: () => this.drop(),
    });
    map.on("mousemove", (event: L.LeafletMouseEvent) => {
      if (this.shape === "polygon") this.move(event.latlng);
    });
    map.on("dblclick", () => this.finishPolygon());
    document.addEventListener("keydown", (event) => this.key(event));
    this.setField(selector);
  }

  setField(selector: string | null): void {
    const field = selector ? document.querySelector<HTMLInputElement | HTMLTextAreaElement>(selector) : null;
    if (field === this.field) return;
    this.field = field;
    field?.addEventListener("change", () => this.show(field.value));
    if (field?.value) this.show(field.value);
  }

  start(shape: Shape): void {
    if (this.shape === shape) return this.stop();
    this.stop();
    this.shape = shape;
    this.map.dragging.disable();
    this.map.doubleClickZoom.disable();
    this.map.getContainer().classList.add("is-drawing");
    this.onState(shape);
    this.say();
  }

  clear(): void {
    this.stop();
    this.group.clearLayers();
    this.write("");
  }

  stop(): void {
    if (!this.shape) return; // what else draws has the map as it needs it
    this.shape = null;
    this.drop();
    this.map.dragging.enable();
    this.map.doubleClickZoom.enable();
    this.map.getContainer().classList.remove("is-drawing");
    this.onState(null);
  }

  private say(): void {
    const n = this.corners.length;
    if (!this.shape) this.onSay("");
    else if (this.shape === "rectangle") this.onSay("Drag a rectangle. Esc ends");
    else if (n === 0) this.onSay("Click the corners. Esc ends");
    else this.onSay(n < 3 ? "Click the next corner. Esc drops it" : "Click the first corner or press Enter to close. Esc drops it");
  }

  /** Takes back what was begun; the tool stays. */
  private drop(): void {
    this.corners = [];
    this.pending.clearLayers();
    this.say();
  }

  private press(at: L.LatLng): void {
    if (this.shape === "rectangle") this.corners = [at];
  }

  private move(at: L.LatLng): void {
    const [first] = this.corners;
    if (!this.shape || !first) return;
    this.pending.clearLayers();
    const points = this.shape === "rectangle" ? box(first, at) : [...this.corners, at];
    this.outline(this.pending, points);
  }

  private release(at: L.LatLng): void {
    const [first] = this.corners;
    if (this.shape !== "rectangle" || !first) return;
    if (first.equals(at)) return this.drop();
    this.done(box(first, at));
  }

  private corner(at: L.LatLng): void {
    const last = this.corners.at(-1);
    if (last?.equals(at)) return;
    const [first] = this.corners;
    const isClosed = first && this.map.latLngToContainerPoint(first).distanceTo(this.map.latLngToContainerPoint(at)) < CLOSE_PX;
    if (isClosed && this.corners.length >= 3) return this.finishPolygon();
    this.corners.push(at);
    this.move(at);
    this.say();
  }

  private finishPolygon(): void {
    if (this.shape === "polygon" && this.corners.length >= 3) this.done(this.corners);
  }

  private key(event: KeyboardEvent): void {
    if (!this.shape) return;
    if (event.key === "Escape") {
      if (this.corners.length > 0) this.drop();
      else this.stop();
    } else if (event.key === "Enter") this.finishPolygon();
    else if (event.key === "Backspace" && this.shape === "polygon") {
      this.corners.pop();
      this.pending.clearLayers();
      if (this.corners.length > 0) this.outline(this.pending, this.corners);
      this.say();
    } else return;
    event.preventDefault();
  }

  private done(points: L.LatLng[]): void {
    const geometry = geometryOf(points.map((point) => [point.lng, point.lat]));
    this.stop();
    this.group.clearLayers();
    this.outline(this.group, points);
    this.write(JSON.stringify(geometry));
  }

  private write(text: string): void {
    if (!this.field) return;
    this.field.value = text;
    this.field.dispatchEvent(new Event("input", { bubbles: true }));
    if (text) reveal(this.field);
  }

  /** Draws what the field holds when it is GeoJSON; WKT is read by the server only. */
  private show(text: string): void {
    this.group.clearLayers();
    if (!text.trim().startsWith("{")) return;
    try {
      const data = JSON.parse(text) as GeoJSON.GeoJsonObject;
      for (const className of ["geo-halo", "geo-core region"]) {
        L.geoJSON(data, {
          interactive: false,
          coordsToLatLng: (coords) => L.latLng(coords[1], coords[0]),
          style: { className, fill: false },
        }).addTo(this.group);
      }
    } catch {
      // half-typed text: the server says what is wrong when it is sent
    }
  }

  private outline(group: L.FeatureGroup, points: L.LatLng[]): void {
    for (const className of ["geo-halo", "geo-core region"]) {
      L.polygon(points, { className, fill: false, interactive: false }).addTo(group);
    }
  }
}

/** Opens the tab or the folded part in which the field lies: what was drawn must be seen where it is asked about. */
function reveal(field: HTMLElement): void {
  const panel = field.closest<HTMLElement>("[hidden]");
  if (!panel) return;
  const opener = panel.getAttribute("aria-labelledby") ?? "";
  (document.getElementById(opener) ?? document.querySelector<HTMLElement>(`[data-toggle="${CSS.escape(panel.id)}"]`))?.click();
}

function box(a: L.LatLng, b: L.LatLng): L.LatLng[] {
  const [south, north] = [Math.min(a.lat, b.lat), Math.max(a.lat, b.lat)];
  const [west, east] = [Math.min(a.lng, b.lng), Math.max(a.lng, b.lng)];
  return [L.latLng(south, west), L.latLng(south, east), L.latLng(north, east), L.latLng(north, west)];
}
