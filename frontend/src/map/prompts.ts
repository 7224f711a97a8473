// What is to be segmented is marked: a click is a point, a drag a box or a stroke; with Shift, or while "Outside" is pressed, it marks
// what does not belong to it. All marks lie in one text field of the ask form, a line each, which is the twin: what is typed there
// stands on the map. By keys: Enter on the map marks its middle, Backspace and Esc take the last back.
import * as L from "leaflet";
import { reveal } from "./marks";
import { type Prompt, promptFrom, promptLine, promptsSaid } from "./prompt-lines";
import { followStrokes } from "./strokes";

// A press that moves less than this many screen pixels is a click; places of a stroke lie as far apart.
const DRAG_PX = 5;
const MOST_VERTICES = 500;

interface Home {
  group: HTMLElement;
  field: HTMLTextAreaElement;
  output: HTMLOutputElement | null;
}

export class Prompts {
  isOn = false;
  private home: Home | null = null;
  private isOutside = false;
  private isBox = true;
  private isShifted = false;
  private stroke: L.LatLng[] = [];
  /** How many were set since the tool is on. */
  private placed = 0;
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
    this.panel = element.querySelector("[data-map-panel=prompts]");
    this.group.addTo(map);
    this.pending.addTo(map);
    followStrokes(map, () => this.isOn, {
      press: (at, isShifted) => {
        this.isShifted = isShifted;
        this.stroke = [at];
      },
      move: (at) => this.move(at),
      release: (at) => this.release(at),
      drop: () => this.drop(),
    });
    this.panel?.addEventListener("click", (event) => this.pick(event));
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("click", (event) => {
      if (event.target instanceof Element && event.target.closest("[data-prompts-start]") && this.home) this.set(true);
    });
  }

  get hasHome(): boolean {
    return this.home !== null;
  }

  /** The field's group; called again after each morph of the page. */
  setHome(selector: string | null): void {
    const group = selector ? document.querySelector<HTMLElement>(selector) : null;
    if (group === this.home?.group) return;
    const field = group?.querySelector<HTMLTextAreaElement>("textarea") ?? null;
    this.home = group && field ? { group, field, output: group.querySelector("output") } : null;
    field?.addEventListener("input", () => this.show());
    group?.querySelector("[data-prompts-clear]")?.addEventListener("click", () => {
      this.write([]);
      field?.focus();
    });
    this.show();
  }

  set(isOn: boolean): void {
    if (this.isOn === isOn || (isOn && !this.home)) return;
    this.isOn = isOn;
    this.onState(); // what else was on gives the map back first
    for (const handler of [this.map.dragging, this.map.doubleClickZoom, this.map.boxZoom]) {
      if (isOn) handler.disable();
      else handler.enable();
    }
    this.map.getContainer().classList.toggle("is-drawing", isOn);
    this.drop();
    if (this.panel) this.panel.hidden = !isOn;
    if (!isOn && this.placed > 0) this.offer();
    this.placed = 0;
    if (isOn) this.map.getContainer().focus({ preventScroll: true });
    this.tell();
  }

  /** Shows the form, and where nothing is asked yet, asks. */
  private offer(): void {
    if (!this.home) return;
    reveal(this.home.group);
    const question = this.home.group.closest("form")?.querySelector<HTMLTextAreaElement>("[name=question]");
    if (!question || question.value.trim()) return;
    question.value = "Segment what I marked";
    question.dispatchEvent(new Event("input", { bubbles: true }));
  }

  private pick(event: Event): void {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-prompt]") : null;
    const what = button?.dataset.prompt;
    if (what === "inside" || what === "outside") this.isOutside = what === "outside";
    else if (what === "box" || what === "stroke") this.isBox = what === "box";
    else if (what === "back") this.back();
    else if (what === "end") this.set(false);
    this.tell();
  }

  private key(event: KeyboardEvent): void {
    if (!this.isOn || event.defaultPrevented) return;
    const isOnMap = event.target === this.map.getContainer();
    if (event.key === "Escape") {
      if (this.stroke.length > 0) this.drop();
      else if (this.placed > 0) this.back();
      else this.set(false);
    } else if (event.key === "Backspace" && isOnMap) this.back();
    else if (event.key === "Enter" && isOnMap) {
      this.isShifted = event.shiftKey;
      const { lng, lat } = this.map.getCenter();
      this.take("point", [[lng, lat]]);
    } else return;
    event.preventDefault();
  }

  private get inside(): boolean {
    return this.isOutside === this.isShifted;
  }

  private isFar(a: L.LatLng, b: L.LatLng): boolean {
    return this.map.latLngToContainerPoint(a).distanceTo(this.map.latLngToContainerPoint(b)) >= DRAG_PX;
  }

  private move(at: L.LatLng): void {
    const last = this.stroke.at(-1);
    if (!last || this.stroke.length >= MOST_VERTICES || !this.isFar(last, at)) return;
    this.stroke.push(at);
    this.pending.clearLayers();
    this.draw(this.pending, this.drawn(at));
  }

  private release(at: L.LatLng): void {
    const first = this.stroke[0];
    const made = first && this.stroke.length > 1 ? this.drawn(at) : null;
    this.drop();
    if (!this.isOn || !first) return;
    if (made) this.take(made.kind, made.places);
    else this.take("point", [[first.lng, first.lat]]);
  }

  /** What the drag has made so far. What is outside is never a box. */
  private drawn(at: L.LatLng): Prompt {
    const first = this.stroke[0] ?? at;
    if (this.isBox && this.inside) {
      const [xs, ys] = [[first.lng, at.lng].map((x) => this.fit(x, 0)), [first.lat, at.lat].map((y) => this.fit(y, 1))];
      return { kind: "box", inside: true, places: [[Math.min(...xs), Math.min(...ys)], [Math.max(...xs), Math.max(...ys)]] };
    }
    return { kind: "stroke", inside: this.inside, places: this.stroke.map((p) => [this.fit(p.lng, 0), this.fit(p.lat, 1)]) };
  }

  /** Into the picture, where it has an end. */
  private fit(value: number, axis: 0 | 1): number {
    return this.crs === "image" && this.size ? Math.min(this.size[axis], Math.max(0, value)) : value;
  }

  private take(kind: Prompt["kind"], places: [number, number][]): void {
    const [x, y] = places[0] ?? [0, 0];
    if (kind === "point" && (this.fit(x, 0) !== x || this.fit(y, 1) !== y)) return;
    // one thing has one box: a second takes the place of the first
    const kept = kind === "box" ? this.lines().filter((line) => promptFrom(line)?.kind !== "box") : this.lines();
    const made: Prompt = { kind, inside: kind === "box" || this.inside, places };
    if (!promptFrom(promptLine(made, this.crs))) return;
    this.placed += 1;
    this.write([...kept, promptLine(made, this.crs)]);
  }

  private back(): void {
    this.placed = Math.max(0, this.placed - 1);
    this.write(this.lines().slice(0, -1));
  }

  private lines(): string[] {
    return (this.home?.field.value ?? "").split("\n").filter((line) => line.trim() !== "");
  }

  private write(lines: string[]): void {
    const field = this.home?.field;
    if (!field) return;
    field.value = lines.join("\n");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  private drop(): void {
    this.stroke = [];
    this.pending.clearLayers();
  }

  private tell(): void {
    const states: Record<string, boolean> = { inside: !this.isOutside, outside: this.isOutside, box: this.isBox, stroke: !this.isBox };
    for (const [name, value] of Object.entries(states)) {
      this.panel?.querySelector(`[data-prompt=${name}]`)?.setAttribute("aria-pressed", String(value));
    }
    const output = this.panel?.querySelector("output");
    const said = promptsSaid(this.lines().flatMap((line) => promptFrom(line) ?? []));
    if (output) output.textContent = this.isOn ? said || `Click it, or drag a ${this.isBox ? "box about" : "stroke over"} it. Esc ends` : "";
  }

  private show(): void {
    this.group.clearLayers();
    const { home } = this;
    if (!home) return;
    const read = this.lines().map(promptFrom);
    // a field that is right has none, as on a fresh page
    if (read.includes(null)) home.field.setAttribute("aria-invalid", "true");
    else home.field.removeAttribute("aria-invalid");
    const prompts = read.flatMap((prompt) => prompt ?? []);
    for (const prompt of prompts) this.draw(this.group, prompt);
    const wrong = read.indexOf(null);
    if (home.output) home.output.textContent = wrong >= 0 ? `Line ${wrong + 1} is no mark.` : promptsSaid(prompts);
    this.tell();
  }

  private draw(group: L.FeatureGroup, { kind, inside, places }: Prompt): void {
    const at = places.map(([x, y]) => L.latLng(y, x));
    if (places.some(([x, y]) => Math.abs(x) > 1e7 || Math.abs(y) > 1e7)) return;
    const side = inside ? "" : " out";
    if (kind === "point") {
      const face = document.createElement("span");
      face.textContent = inside ? "+" : "−";
      const icon = L.divIcon({ className: `prompt-pin${side}`, html: face, iconSize: [18, 18], iconAnchor: [9, 9] });
      for (const place of at) L.marker(place, { icon, interactive: false, keyboard: false }).addTo(group);
      return;
    }
    for (const className of ["geo-halo", `geo-core prompt${side}`]) {
      const options = { className, fill: false, interactive: false };
      if (kind === "box") L.rectangle(L.latLngBounds(at), options).addTo(group);
      else L.polyline(at, options).addTo(group);
    }
  }
}
