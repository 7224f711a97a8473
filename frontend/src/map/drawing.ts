// Region drawing: a rectangle by dragging, a polygon by clicks (double click or Enter ends, Esc drops,
// Backspace takes the last corner back). The result is a GeoJSON geometry in a form field, which is
// the twin: what is pasted there is drawn here.
import * as L from "leaflet";
import { geometryOf } from "./config";

export type Shape = "rectangle" | "polygon";
export class Drawing {
  onState: (shape: Shape | null) => void = () => undefined;
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
    map.on("mousedown", (event: L.LeafletMouseEvent) => this.press(event));
    map.on("mousemove", (event: L.LeafletMouseEvent) => this.move(event.latlng));
    map.on("mouseup", (event: L.LeafletMouseEvent) => this.release(event.latlng));
    map.on("click", (event: L.LeafletMouseEvent) => this.click(event.latlng));
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
  }

  clear(): void {
    this.stop();
    this.group.clearLayers();
    this.write("");
  }

  stop(): void {
    if (!this.shape) return; // what else draws has the map as it needs it
    this.shape = null;
    this.corners = [];
    this.pending.clearLayers();
    this.map.dragging.enable();
    this.map.doubleClickZoom.enable();
    this.map.getContainer().classList.remove("is-drawing");
    this.onState(null);
  }

  private press(event: L.LeafletMouseEvent): void {
    if (this.shape === "rectangle") this.corners = [event.latlng];
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
    if (first.equals(at)) {
      this.corners = [];
      return;
    }
    this.done(box(first, at));
  }

  private click(at: L.LatLng): void {
    if (this.shape !== "polygon") return;
    const last = this.corners.at(-1);
    if (last?.equals(at)) return;
    this.corners.push(at);
    this.move(at);
  }

  private finishPolygon(): void {
    if (this.shape === "polygon" && this.corners.length >= 3) this.done(this.corners);
  }

  private key(event: KeyboardEvent): void {
    if (!this.shape) return;
    if (event.key === "Escape") this.stop();
    else if (event.key === "Enter") this.finishPolygon();
    else if (event.key === "Backspace" && this.shape === "polygon") {
      this.corners.pop();
      this.pending.clearLayers();
      if (this.corners.length > 0) this.outline(this.pending, this.corners);
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
