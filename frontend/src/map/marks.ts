// Two places, A and B: a click is a point, a drag a box. Each lies in a text field of the ask form, which is the twin: what is typed
// or pasted there stands on the map, and what is moved on the map stands there. Arrow keys move a mark that has the focus, Delete
// takes it away. How large a screen pixel was where one clicked goes along: it is how exactly the mark can be right.
import * as L from "leaflet";
import { imageMaxZoom } from "./config";
import { type Place, middleOf, movedTo, placeFrom, placeSaid, placeText } from "./places";
import { followStrokes } from "./strokes";

export const NAMES = ["A", "B"] as const;
export type Name = (typeof NAMES)[number];
// A press that moves less than this many screen pixels is a click.
const DRAG_PX = 5;

interface Home {
  group: HTMLElement;
  output: HTMLOutputElement | null;
  fields: Record<Name, HTMLInputElement>;
  exact: Record<Name, HTMLInputElement | null>;
}

/** A mark set since the tool is on, and what stood in its fields before. */
interface Placed {
  name: Name;
  text: string;
  exact: string;
}

export class Marks {
  isOn = false;
  private home: Home | null = null;
  private queue: Name[] = [];
  private placed: Placed[] = [];
  private pressed: L.LatLng | null = null;
  private isDragged = false;
  private readonly group = L.featureGroup();
  private readonly pending = L.featureGroup();
  private readonly panel: HTMLElement | null;

  constructor(
    private readonly map: L.Map,
    element: HTMLElement,
    private readonly crs: "geo" | "image",
    private readonly size: [number, number] | null,
    private readonly onState: () => void,
  ) {
    this.panel = element.querySelector("[data-map-panel=marks]");
    this.group.addTo(map);
    this.pending.addTo(map);
    followStrokes(map, () => this.isOn, {
      press: (at) => this.press(at),
      move: (at) => this.move(at),
      release: (at) => this.release(at),
      drop: () => this.drop(),
    });
    document.addEventListener("keydown", (event) => {
      if (!this.isOn || event.key !== "Escape" || event.defaultPrevented) return;
      event.preventDefault();
      this.back();
    });
    document.addEventListener("click", (event) => {
      const start = event.target instanceof Element ? event.target.closest("[data-marks-start]") : null;
      if (start && this.home) this.set(true);
    });
  }

  get hasHome(): boolean {
    return this.home !== null;
  }

  /** The fields' group; called again after each morph of the page. */
  setHome(selector: string | null): void {
    const group = selector ? document.querySelector<HTMLElement>(selector) : null;
    if (group === this.home?.group) return;
    this.home = null;
    const field = (name: Name): HTMLInputElement | null => group?.querySelector(`[data-mark=${name}]`) ?? null;
    const [a, b] = [field("A"), field("B")];
    if (group && a && b) {
      const exact = (name: Name): HTMLInputElement | null => group.querySelector(`[data-mark-exact=${name}]`);
      this.home = { group, output: group.querySelector("output"), fields: { A: a, B: b }, exact: { A: exact("A"), B: exact("B") } };
      for (const name of NAMES) this.listen(name);
    }
    this.show();
  }

  set(isOn: boolean): void {
    if (this.isOn === isOn || (isOn && !this.home)) return;
    this.isOn = isOn;
    this.onState(); // what else was on gives the map back first
    const { home } = this;
    if (isOn && home) {
      const empty = NAMES.filter((name) => !placeFrom(home.fields[name].value));
      this.queue = empty.length > 0 ? empty : [...NAMES];
      this.map.dragging.disable();
      this.map.doubleClickZoom.disable();
    } else {
      this.queue = [];
      this.map.dragging.enable();
      this.map.doubleClickZoom.enable();
    }
    this.placed = [];
    this.drop();
    this.map.getContainer().classList.toggle("is-drawing", isOn);
    if (this.panel) this.panel.hidden = !isOn;
    this.ask();
  }

  /** One step back: the box that is being drawn, else the mark set last, else the tool itself. */
  private back(): void {
    const last = this.placed.at(-1);
    if (this.pressed) this.drop();
    else if (last) {
      this.placed.pop();
      this.queue.unshift(last.name);
      this.write(last.name, placeFrom(last.text));
      this.exact(last.name, last.exact);
      this.ask();
    } else this.set(false);
  }

  private listen(name: Name): void {
    const { home } = this;
    if (!home) return;
    const field = home.fields[name];
    field.addEventListener("input", (event) => {
      // what a hand types is a coordinate and as exact as it is written
      if (event.isTrusted) this.exact(name, "");
      this.check(field);
      this.show();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !field.value) return;
      event.preventDefault();
      event.stopPropagation();
      this.write(name, null);
    });
    home.group.querySelector(`[data-mark-clear=${name}]`)?.addEventListener("click", () => {
      this.write(name, null);
      field.focus();
    });
  }

  private check(field: HTMLInputElement): void {
    field.setAttribute("aria-invalid", String(field.value.trim() !== "" && !placeFrom(field.value)));
  }

  private press(at: L.LatLng): void {
    if (!this.isOn) return;
    this.pressed = at;
    this.isDragged = false;
  }

  private move(at: L.LatLng): void {
    if (!this.pressed) return;
    const [from, to] = [this.map.latLngToContainerPoint(this.pressed), this.map.latLngToContainerPoint(at)];
    if (!this.isDragged && from.distanceTo(to) < DRAG_PX) return;
    this.isDragged = true;
    this.pending.clearLayers();
    this.outline(this.pending, this.boxOf(this.pressed, at));
  }

  private release(at: L.LatLng): void {
    const { pressed } = this;
    this.pressed = null;
    this.pending.clearLayers();
    if (!this.isOn || !pressed) return;
    if (this.isDragged) this.take(this.boxOf(pressed, at));
    else if (this.isInside(at.lng, at.lat)) this.take([at.lng, at.lat]);
  }

  private boxOf(a: L.LatLng, b: L.LatLng): [number, number, number, number] {
    const fit = (v: number, most: number | undefined): number => (most === undefined ? v : Math.min(most, Math.max(0, v)));
    const [w, h] = this.crs === "image" && this.size ? this.size : [undefined, undefined];
    const xs = [fit(a.lng, w), fit(b.lng, w)];
    const ys = [fit(a.lat, h), fit(b.lat, h)];
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  }

  private isInside(x: number, y: number): boolean {
    if (this.crs === "geo" || !this.size) return true;
    return x >= 0 && y >= 0 && x <= this.size[0] && y <= this.size[1];
  }

  private take(place: Place): void {
    const name = this.queue.shift();
    if (!name) return;
    if (place.length === 4 && !(place[0] < place[2] && place[1] < place[3])) {
      this.queue.unshift(name);
      return;
    }
    const { home } = this;
    this.placed.push({ name, text: home?.fields[name].value ?? "", exact: home?.exact[name]?.value ?? "" });
    this.write(name, place);
    if (this.queue.length === 0) {
      this.set(false);
      if (this.home) reveal(this.home.group);
    } else this.ask();
  }

  /** Into the field, with the size of a screen pixel there: metres, or pixels of the picture. */
  private write(name: Name, place: Place | null): void {
    const { home } = this;
    if (!home) return;
    const field = home.fields[name];
    field.value = place ? placeText(place, this.crs) : "";
    this.exact(name, place ? this.screenPixel(middleOf(place)[1]) : "");
    this.check(field);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    const kind = place?.length === 4 ? "box" : "point";
    this.say(place ? `${name}: ${kind} at ${placeSaid(middleOf(place), this.crs)}` : `${name} is cleared`);
  }

  private exact(name: Name, text: string): void {
    const field = this.home?.exact[name];
    if (field) field.value = text;
  }

  private screenPixel(lat: number): string {
    const zoom = this.map.getZoom();
    const size =
      this.crs === "image"
        ? 2 ** (imageMaxZoom(this.size ?? [256, 256]) - zoom)
        : (40075016.686 * Math.cos((lat * Math.PI) / 180)) / 2 ** (zoom + 8);
    return String(Number(size.toPrecision(4)));
  }

  private say(text: string): void {
    if (this.home?.output) this.home.output.textContent = text;
  }

  private ask(): void {
    const [name] = this.queue;
    const output = this.panel?.querySelector("output");
    const last = this.placed.at(-1);
    const escape = last ? `Esc takes ${last.name} back` : "Esc ends";
    if (output) output.textContent = this.isOn && name ? `${name}: click a point or drag a box. ${escape}` : "";
  }

  private drop(): void {
    this.pressed = null;
    this.isDragged = false;
    this.pending.clearLayers();
  }

  private show(): void {
    // a mark that has the focus is moved, not made anew
    const focused = document.activeElement?.getAttribute("data-pin");
    this.group.clearLayers();
    const { home } = this;
    if (!home) return;
    const middles: L.LatLng[] = [];
    for (const name of NAMES) {
      const place = placeFrom(home.fields[name].value);
      if (!place || Math.abs(place[0]) > 1e7 || Math.abs(place[1]) > 1e7) continue;
      if (place.length === 4) this.outline(this.group, place);
      middles.push(this.pin(name, place, focused === name));
    }
    const [one, two] = middles;
    if (one && two) {
      for (const className of ["geo-halo", "geo-core measure"]) L.polyline([one, two], { className, interactive: false }).addTo(this.group);
    }
  }

  private outline(group: L.FeatureGroup, [x0, y0, x1, y1]: [number, number, number, number]): void {
    const corners = [L.latLng(y0, x0), L.latLng(y0, x1), L.latLng(y1, x1), L.latLng(y1, x0)];
    for (const className of ["geo-halo", "geo-core"]) L.polygon(corners, { className, fill: false, interactive: false }).addTo(group);
  }

  private pin(name: Name, place: Place, isFocused: boolean): L.LatLng {
    const [x, y] = middleOf(place);
    const face = document.createElement("span");
    face.textContent = name;
    const icon = L.divIcon({ className: "mark-pin", html: face, iconSize: [28, 28], iconAnchor: [14, 14] });
    const marker = L.marker([y, x], { icon, draggable: true, keyboard: true, riseOnHover: true, autoPanOnFocus: false }).addTo(this.group);
    const node = marker.getElement();
    const put = (at: L.LatLng): void => this.write(name, movedTo(place, at.lng, at.lat));
    marker.on("dragend", () => put(marker.getLatLng()));
    marker.on("click", () => {
      if (this.isOn || !this.home) return;
      reveal(this.home.group);
      this.home.fields[name].focus();
    });
    if (node) {
      node.dataset.pin = name;
      const kind = place.length === 4 ? "box" : "point";
      node.setAttribute("aria-label", `${name}, ${kind} at ${placeText([x, y], this.crs)}. Arrow keys move it, Delete takes it away.`);
      node.addEventListener("keydown", (event) => this.steer(event, name, marker.getLatLng(), put));
      if (isFocused) node.focus({ preventScroll: true });
    }
    return L.latLng(y, x);
  }

  private steer(event: KeyboardEvent, name: Name, at: L.LatLng, put: (at: L.LatLng) => void): void {
    const step = event.shiftKey ? 10 : 1;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (by) put(this.map.containerPointToLatLng(this.map.latLngToContainerPoint(at).add(by as [number, number])));
    else if (event.key === "Delete" || event.key === "Backspace" || event.key === "Escape") {
      this.write(name, null);
      this.map.getContainer().focus({ preventScroll: true });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Opens the tab, the folded part and the details in which the fields lie. */
export function reveal(field: HTMLElement): void {
  const folded = field.closest("details");
  if (folded) folded.open = true;
  const panel = field.closest<HTMLElement>("[hidden]");
  if (!panel) return;
  const opener = panel.getAttribute("aria-labelledby") ?? "";
  (document.getElementById(opener) ?? document.querySelector<HTMLElement>(`[data-toggle="${CSS.escape(panel.id)}"]`))?.click();
}
