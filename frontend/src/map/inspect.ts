// Values at a place: a click, or a typed position, asks the server what the scenes' bands and the layers hold there.
import * as L from "leaflet";
import { placeOf } from "./figures";
import { figure, unitText } from "./legend";

interface Values {
  scenes: { title: string; pixel: [number, number]; values: { name: string; value: number | null }[] }[];
  layers: { name: string; unit: string; step: number; value: number | boolean | null }[];
  n_scenes: number;
}

function said(value: number | boolean | null, unit = ""): string {
  if (value === null) return "not valid";
  if (typeof value === "boolean") return value ? "yes" : "no";
  const sign = unitText(unit);
  return `${figure(value)}${sign === "\u00b0" ? "" : " "}${sign}`.trim();
}

function table(caption: string, rows: [string, string][]): HTMLTableElement {
  const made = document.createElement("table");
  made.createCaption().textContent = caption;
  const body = made.createTBody();
  for (const [name, value] of rows) {
    const row = body.insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    row.append(head);
    const cell = row.insertCell();
    cell.className = "r";
    cell.textContent = value;
  }
  return made;
}

export class Inspector {
  isOn = false;
  private turn = 0;
  private mark: L.CircleMarker | null = null;
  private readonly field: HTMLInputElement | null;
  private readonly output: HTMLOutputElement | null;
  private readonly home: HTMLElement | null;

  constructor(
    private readonly map: L.Map,
    private readonly panel: HTMLFormElement,
    private readonly crs: "geo" | "image",
    private readonly onState: () => void,
  ) {
    this.field = panel.querySelector("input[name=place]");
    this.output = panel.querySelector("output");
    this.home = panel.querySelector(".vals");
    map.on("click", (event: L.LeafletMouseEvent) => {
      if (this.isOn) void this.read([event.latlng.lat, event.latlng.lng]);
    });
    panel.addEventListener("submit", (event) => {
      event.preventDefault();
      const place = placeOf(this.field?.value ?? "", crs);
      if (place) void this.read(place);
      else this.say(crs === "image" ? "Write column, row." : "Write longitude, latitude in degrees.");
    });
    document.addEventListener("keydown", (event) => {
      if (this.isOn && event.key === "Escape" && !event.defaultPrevented && event.target !== this.field) this.set(false);
    });
  }

  set(isOn: boolean): void {
    if (this.isOn === isOn) return;
    this.isOn = isOn;
    this.panel.hidden = !isOn;
    this.map.getContainer().classList.toggle("is-drawing", isOn);
    this.mark?.remove();
    this.mark = null;
    this.home?.replaceChildren();
    if (this.home) this.home.hidden = true;
    this.say("Click on the map, or type a position.");
    this.onState();
  }

  private async read([lat, lng]: [number, number]): Promise<void> {
    const turn = (this.turn += 1);
    const [x, y] = this.crs === "image" ? [Math.floor(lng) + 0.5, Math.floor(lat) + 0.5] : [+lng.toFixed(6), +lat.toFixed(6)];
    if (this.field) this.field.value = this.crs === "image" ? `${Math.floor(lng)}, ${Math.floor(lat)}` : `${x}, ${y}`;
    this.mark?.remove();
    this.mark = L.circleMarker([lat, lng], { radius: 5, className: "geo-core sel", interactive: false }).addTo(this.map);
    try {
      const response = await fetch(`${this.panel.action}?x=${x}&y=${y}`, { credentials: "same-origin" });
      if (turn !== this.turn || !this.isOn) return;
      if (!response.ok) this.say("The values could not be read.");
      else this.show((await response.json()) as Values);
    } catch {
      if (turn === this.turn) this.say("The server did not answer; nothing was read.");
    }
  }

  private show(values: Values): void {
    const tables = values.scenes.map((scene) =>
      table(`${scene.title}, px ${scene.pixel.join(", ")}`, scene.values.map((v) => [v.name, said(v.value)])),
    );
    if (values.layers.length > 0) {
      tables.unshift(table("Results", values.layers.map((layer) => [`${layer.name} (obs ${layer.step})`, said(layer.value, layer.unit)])));
    }
    if (this.home) {
      this.home.replaceChildren(...tables);
      this.home.hidden = tables.length === 0;
    }
    this.say(tables.length === 0 ? "No scene lies here." : `${values.scenes.length} of ${values.n_scenes} scenes lie here.`);
  }

  private say(text: string): void {
    if (this.output) this.output.textContent = text;
  }
}
