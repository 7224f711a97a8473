// The map: tiles, pictures and outlines from the page's configuration, a layer list, swipe, region
// drawing, read-out and keys. Every action has a button or a field outside the canvas.
import * as L from "leaflet";
import { type GridConfig, type LayerConfig, type MapConfig, imageMaxZoom, toLeaflet, toPixel, viewOf, viewText, wrapLon } from "./config";
import { Dates } from "./dates";
import { Drawing } from "./drawing";
import { placeOf, signed } from "./figures";
import { graticule, landOutline } from "./ground";
import { Outlines } from "./outlines";
import { Inspector } from "./inspect";
import { legendOf } from "./legend";
import { Marks } from "./marks";
import { Measurement } from "./measure";
import { Prompts } from "./prompts";
import { hasOneScale, scaleBar } from "./scale";
import { Swipe } from "./swipe";

declare global {
  interface Window {
    proj4?: (from: string, to: string, point: [number, number]) => [number, number];
  }
}

interface Shown {
  config: LayerConfig;
  layer: L.Layer;
  isOn: boolean;
  opacity: number;
}

/** Results over imagery: what M, B, the brackets and Space act on. */
function isOverlay(config: LayerConfig): boolean {
  return config.kind === "geojson" || config.style !== undefined;
}

function hasStyle(config: LayerConfig, styles: string[]): boolean {
  return isOverlay(config) && styles.includes(config.style ?? "mask");
}

const ICONS = document.documentElement.dataset.icons ?? "";

function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${ICONS}#i-${name}`);
  svg.append(use);
  return svg;
}

export class MapIsland {
  readonly map: L.Map;
  private config: MapConfig;
  private source: string;
  private readonly shown = new Map<string, Shown>();
  private readonly outlines: Outlines;
  private readonly drawing: Drawing;
  private measurement: Measurement | null = null;
  private inspector: Inspector | null = null;
  private readonly marks: Marks;
  private readonly prompts: Prompts;
  private dating: Dates | null = null;
  /** Shows the chosen date again, where there are dates. */
  private chosen: () => void = () => undefined;
  private swipe: Swipe | null = null;
  private isHidden = false;
  private readonly releases: (() => void)[] = [];

  constructor(
    private readonly element: HTMLElement,
    source: string,
  ) {
    this.source = source;
    this.config = JSON.parse(source) as MapConfig;
    const canvas = document.createElement("div");
    canvas.className = "map-canvas";
    element.prepend(canvas);
    this.map = this.create(canvas);
    this.outlines = new Outlines(this.map);
    this.scores();
    this.drawing = new Drawing(this.map, this.config.draw ?? null);
    this.marks = new Marks(this.map, element, this.config.crs, this.config.size_px ?? null, () => {
      if (this.marks.isOn) this.others("marks");
      this.pressed();
    });
    this.marks.setHome(this.config.marks ?? null);
    this.prompts = new Prompts(this.map, element, this.config.crs, this.config.size_px ?? null, () => {
      if (this.prompts.isOn) this.others("prompts");
      this.pressed();
    });
    this.prompts.setHome(this.config.prompts ?? null);
    this.outlines.isLettered = !this.marks.hasHome;
    this.ground();
    this.layers();
    this.fit();
    this.panels();
    this.controls();
    this.readout();
    this.dates();
    this.keys();
    element.dataset.ready = "";
    // the panel around a map is often laid out after it
    let isTouched = false;
    for (const event of ["pointerdown", "wheel", "keydown"]) {
      element.addEventListener(event, () => (isTouched = true), { capture: true, passive: true, once: true });
    }
    // where one looked is part of the address: it can be sent, and going back finds it again
    if (element.dataset.address !== undefined) {
      const kept = viewOf(location.hash);
      if (kept) {
        isTouched = true;
        this.map.setView([kept[1], kept[2]], kept[0], { animate: false });
      }
      this.map.on("moveend", () => {
        if (!isTouched) return;
        const { lat, lng } = this.map.getCenter();
        history.replaceState(history.state, "", viewText(this.map.getZoom(), lat, lng));
      });
    }
    new ResizeObserver(() => {
      this.map.invalidateSize({ animate: false });
      if (!isTouched) this.fit();
    }).observe(element);
  }

  /** Called after each morph of the page: only what differs is touched. */
  update(source: string): void {
    if (source === this.source) return;
    const before = this.config;
    this.source = source;
    this.config = JSON.parse(source) as MapConfig;
    this.layers();
    const isMoved = JSON.stringify(before.bounds) !== JSON.stringify(this.config.bounds);
    if (isMoved) this.fit();
    this.drawing.setField(this.config.draw ?? null);
    this.marks.setHome(this.config.marks ?? null);
    this.prompts.setHome(this.config.prompts ?? null);
    this.pressed();
  }

  remove(): void {
    this.releases.forEach((release) => release());
    this.map.remove();
  }

  private create(canvas: HTMLElement): L.Map {
    const isImage = this.config.crs === "image";
    const zoomMax = isImage ? imageMaxZoom(this.config.size_px ?? [256, 256]) : 22;
    // one picture pixel is one unit; lat is the row, counted from the top, lng the column
    const scale = 1 / 2 ** zoomMax;
    const crs = isImage
      ? L.Util.extend({}, L.CRS.Simple, { transformation: new L.Transformation(scale, 0, scale, 0) })
      : L.CRS.EPSG3857;
    const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return L.map(canvas, {
      crs: crs as L.CRS,
      zoomControl: false,
      attributionControl: true,
      minZoom: isImage ? -1 : 0,
      maxZoom: isImage ? zoomMax + 6 : 22,
      zoomSnap: 0.25,
      worldCopyJump: !isImage,
      zoomAnimation: !reduced,
      fadeAnimation: !reduced,
      markerZoomAnimation: !reduced,
      boxZoom: true,
    }).setView(isImage ? [0, 0] : [20, 0], isImage ? 0 : 1);
  }

  private ground(): void {
    this.map.attributionControl.setPrefix(false);
    if (this.config.crs !== "geo") return;
    if (this.config.land) void landOutline(this.map, this.config.land);
    if (this.config.graticule !== false) graticule(this.map);
  }

  private layers(): void {
    const wanted = new Set(this.config.layers.map((layer) => layer.id));
    for (const [id, shown] of this.shown) {
      if (wanted.has(id)) continue;
      shown.layer.remove();
      this.shown.delete(id);
    }
    for (const [order, config] of this.config.layers.entries()) {
      // the question's own marks stand in the form, as pins that can be moved
      if ((config.id === "marks" && this.marks.hasHome) || (config.id === "prompts" && this.prompts.hasHome)) continue;
      const old = this.shown.get(config.id);
      if (old && JSON.stringify(old.config) === JSON.stringify(config)) continue;
      old?.layer.remove();
      const shown: Shown = {
        config,
        layer: this.make(config, order),
        isOn: old?.isOn ?? config.visible !== false,
        opacity: old?.opacity ?? config.opacity ?? 1,
      };
      this.shown.set(config.id, shown);
      this.apply(shown);
    }
    this.list();
    this.compare();
  }

  private make(config: LayerConfig, order: number): L.Layer {
    const bounds = config.bounds ? toLeaflet(config.bounds, this.config.crs) : undefined;
    // the first layer of the list lies on top
    const zIndex = 400 - order;
    if (config.kind === "tiles") {
      return L.tileLayer(config.url ?? "", {
        bounds,
        zIndex,
        minZoom: this.config.crs === "image" ? -1 : (config.min_zoom ?? 0),
        minNativeZoom: this.config.crs === "image" ? 0 : (config.min_zoom ?? 0),
        maxZoom: 30,
        maxNativeZoom: config.max_native_zoom ?? (this.config.crs === "image" ? imageMaxZoom(this.config.size_px ?? [256, 256]) : 18),
        className: "tiles-crisp",
        attribution: config.attribution,
        noWrap: this.config.crs === "image",
        updateWhenZooming: false,
      }).on("tileerror", () => this.tileFailed());
    }
    if (config.kind === "image" && bounds) {
      return L.imageOverlay(config.url ?? "", bounds, { className: "tiles-crisp", zIndex, alt: config.name }).on("error", () =>
        this.tileFailed(),
      );
    }
    return this.outlines.layer(config, this.config.crs);
  }

  private apply(shown: Shown): void {
    const isOn = shown.isOn && !(this.isHidden && isOverlay(shown.config));
    if (isOn) shown.layer.addTo(this.map);
    else shown.layer.remove();
    if (shown.layer instanceof L.GridLayer || shown.layer instanceof L.ImageOverlay) shown.layer.setOpacity(shown.opacity);
    else this.outlines.setOpacity(shown.layer, shown.opacity);
    if (isOn) this.swipe?.refresh();
  }

  private tileFailed(): void {
    const note = this.element.querySelector<HTMLElement>("[data-tile-error]");
    if (note) note.hidden = false;
  }

  private compare(): void {
    const pair = this.config.swipe?.map((id) => this.shown.get(id)?.layer).filter((layer) => layer instanceof L.GridLayer);
    if (!pair || pair.length !== 2) {
      this.swipe?.remove();
      this.swipe = null;
      return;
    }
    const [left, right] = pair as [L.GridLayer, L.GridLayer];
    if (this.swipe) this.swipe.setLayers(left, right);
    else {
      this.swipe = new Swipe(this.map, this.element, left, right);
      if (this.swipe.isOn) this.showPair();
    }
    const [one, other] = (this.config.swipe ?? []).map((id) => this.shown.get(id)?.config.name ?? "");
    this.swipe.setNames(one ?? "", other ?? "");
  }

  /** Both dates are on while they are compared. */
  private showPair(): void {
    for (const id of this.config.swipe ?? []) {
      const shown = this.shown.get(id);
      if (!shown || shown.isOn) continue;
      shown.isOn = true;
      this.apply(shown);
    }
    this.swipe?.refresh();
    this.list();
  }

  fit(): void {
    const { bounds, crs, size_px: size } = this.config;
    const box = bounds ?? (crs === "image" && size ? ([0, 0, size[0], size[1]] as const) : null);
    if (box) this.map.fitBounds(toLeaflet([...box] as [number, number, number, number], crs), { padding: [16, 16], animate: false });
    else if (crs === "geo") this.map.setView([20, 0], 1);
  }

  /** The two small forms over the map: measure, and go to a position. Both are the twins of what the pointer does. */
  private panels(): void {
    const form = (name: string): HTMLFormElement | null => this.element.querySelector(`[data-map-panel=${name}]`);
    const measure = form("measure");
    if (measure) {
      this.measurement = new Measurement(
        this.map,
        measure,
        this.config.crs,
        () => this.config.grid?.gsd_m ?? null,
        () => this.pressed(),
      );
    }
    const inspect = form("inspect");
    if (inspect) this.inspector = new Inspector(this.map, inspect, this.config.crs, () => this.pressed());
    const go = form("go");
    go?.addEventListener("submit", (event) => {
      event.preventDefault();
      const field = go.querySelector("input");
      const place = placeOf(field?.value ?? "", this.config.crs);
      const output = go.querySelector("output");
      if (!place) {
        if (output) output.textContent = this.config.crs === "image" ? "Write column, row." : "Write longitude, latitude in degrees.";
        return;
      }
      if (output) output.textContent = "";
      this.map.setView(place, Math.max(this.map.getZoom(), this.config.crs === "image" ? 0 : 12));
      const mark = L.circleMarker(place, { radius: 7, className: "geo-core sel", interactive: false }).addTo(this.map);
      window.setTimeout(() => mark.remove(), 6000);
    });
    for (const panel of [measure, inspect, go]) {
      // keys and clicks in a form are not the map's
      if (panel) for (const event of ["mousedown", "click", "dblclick", "wheel"]) panel.addEventListener(event, (e) => e.stopPropagation());
    }
  }

  private toggleGo(): void {
    const panel = this.element.querySelector<HTMLFormElement>("[data-map-panel=go]");
    if (!panel) return;
    panel.hidden = !panel.hidden;
    if (!panel.hidden) panel.querySelector("input")?.focus();
    this.pressed();
  }

  private toggleMeasure(): void {
    if (!this.measurement) return;
    this.others("measure");
    this.measurement.set(!this.measurement.isOn);
  }

  private toggleInspector(): void {
    if (!this.inspector) return;
    this.others("inspect");
    this.inspector.set(!this.inspector.isOn);
  }

  /** One thing at a time is done with the pointer: what else is on is switched off. */
  private others(but: "measure" | "inspect" | "marks" | "prompts" | "draw"): void {
    if (but !== "draw") this.drawing.stop();
    if (but !== "measure") this.measurement?.set(false);
    if (but !== "inspect") this.inspector?.set(false);
    if (but !== "marks") this.marks.set(false);
    if (but !== "prompts") this.prompts.set(false);
  }

  /** A slider beside the map: which boxes would stand at another score. It looks and changes nothing. */
  private scores(): void {
    const home = document.getElementById(this.element.dataset.scores ?? "");
    const field = home?.querySelector<HTMLInputElement>("input[type=range]");
    if (!home || !field) return;
    home.dataset.island = "scores";
    const show = (): void => {
      const score = Number(field.value) / 100;
      const { shown, all } = this.outlines.setScore(score);
      const output = home.querySelector("output");
      if (output) output.textContent = `${score.toFixed(2)}: ${shown} of ${all} candidates`;
      field.setAttribute("aria-valuetext", `score at least ${score.toFixed(2)}, ${shown} of ${all} candidates`);
    };
    this.outlines.onScored = show;
    field.addEventListener("input", () => {
      for (const one of this.shown.values()) {
        if (one.isOn || one.config.style !== "candidates") continue;
        one.isOn = true;
        this.apply(one);
      }
      this.list();
      this.pressed();
      show();
    });
  }

  /** The chosen date is what the map shows; beside the first one while they are swiped. */
  private dates(): void {
    const home = document.getElementById(this.element.dataset.dates ?? "");
    if (!home) return;
    this.dating = new Dates(home, (chosen) => this.showDate(chosen, home));
    this.chosen = (): void => this.showDate(this.dating?.value ?? "", home);
    if (this.swipe?.isOn && this.config.swipe) this.dating.set(this.config.swipe[1]);
  }

  private showDate(chosen: string, home: HTMLElement): void {
    const [left] = this.config.swipe ?? [];
    for (const option of home.querySelectorAll("option")) {
      const shown = this.shown.get(option.value);
      const isOn = option.value === chosen || (this.swipe?.isOn === true && option.value === left);
      if (!shown || shown.isOn === isOn) continue;
      shown.isOn = isOn;
      this.apply(shown);
    }
    if (left && chosen !== left) {
      this.config.swipe = [left, chosen];
      this.compare();
    }
    this.list();
  }

  private controls(): void {
    const actions: Record<string, () => void> = {
      measure: () => this.toggleMeasure(),
      inspect: () => this.toggleInspector(),
      "measure-clear": () => this.measurement?.clear(),
      go: () => this.toggleGo(),
      "zoom-in": () => this.map.zoomIn(),
      "zoom-out": () => this.map.zoomOut(),
      fit: () => this.fit(),
      "draw-rectangle": () => this.drawing.start("rectangle"),
      "draw-polygon": () => this.drawing.start("polygon"),
      "draw-clear": () => this.drawing.clear(),
      mark: () => this.marks.set(!this.marks.isOn),
      prompt: () => this.prompts.set(!this.prompts.isOn),
      swipe: () => this.toggleSwipe(),
      masks: () => this.toggleStyle(["mask", "unseen"]),
      boxes: () => this.toggleStyle(["boxes", "candidates"]),
    };
    this.element.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-map]") : null;
      if (!button) return;
      if (button.dataset.map?.startsWith("draw-")) this.others("draw");
      actions[button.dataset.map ?? ""]?.();
    });
    this.drawing.onSay = (text) => {
      const panel = this.element.querySelector<HTMLElement>("[data-map-panel=draw]");
      const output = panel?.querySelector("output");
      if (!panel || !output) return;
      panel.hidden = !text;
      output.textContent = text;
    };
    this.drawing.onState = (shape) => {
      for (const button of this.element.querySelectorAll<HTMLElement>("[data-map^=draw-]")) {
        if (button.dataset.map !== "draw-clear") button.setAttribute("aria-pressed", String(button.dataset.map === `draw-${shape}`));
      }
    };
    this.pressed();
  }

  private toggleSwipe(): void {
    this.swipe?.toggle();
    if (this.swipe?.isOn) this.showPair();
    this.chosen();
    this.pressed();
  }

  private toggleStyle(styles: string[]): void {
    const of = [...this.shown.values()].filter((shown) => hasStyle(shown.config, styles));
    const isOn = !of.some((shown) => shown.isOn);
    for (const shown of of) {
      shown.isOn = isOn;
      this.apply(shown);
    }
    this.list();
    this.pressed();
  }

  private pressed(): void {
    const isOn = (styles: string[]): boolean =>
      [...this.shown.values()].some((shown) => shown.isOn && hasStyle(shown.config, styles));
    const states: Record<string, boolean> = {
      swipe: this.swipe?.isOn ?? false,
      masks: isOn(["mask", "unseen"]),
      boxes: isOn(["boxes", "candidates"]),
      measure: this.measurement?.isOn ?? false,
      inspect: this.inspector?.isOn ?? false,
      mark: this.marks.isOn,
      prompt: this.prompts.isOn,
      go: this.element.querySelector<HTMLElement>("[data-map-panel=go]")?.hidden === false,
    };
    const has = (styles: string[]): boolean => this.config.layers.some((layer) => hasStyle(layer, styles));
    // a button that could do nothing here is not shown
    const usable: Record<string, boolean> = {
      swipe: this.swipe !== null,
      masks: has(["mask", "unseen"]),
      boxes: has(["boxes", "candidates"]),
      mark: this.marks.hasHome,
      prompt: this.prompts.hasHome,
    };
    for (const [name, value] of Object.entries(states)) {
      const button = this.element.querySelector<HTMLElement>(`[data-map=${name}]`);
      if (!button) continue;
      button.setAttribute("aria-pressed", String(value));
      button.hidden = usable[name] === false;
    }
  }

  /** The layer list is a twin of the map: it lives in the page at data-layers, by id. */
  private list(): void {
    const home = document.getElementById(this.element.dataset.layers ?? "");
    if (!home) return;
    // the server renders it empty: a morph must not empty it again
    home.dataset.island = "layers";
    const groups = new Map<string, Shown[]>();
    for (const config of this.config.layers) {
      const shown = this.shown.get(config.id);
      if (shown) groups.set(config.group ?? "Layers", [...(groups.get(config.group ?? "Layers") ?? []), shown]);
    }
    const parts: Node[] = [];
    for (const [name, members] of groups) {
      const head = document.createElement("div");
      head.className = "sec-h";
      const title = document.createElement("h2");
      title.textContent = name;
      const count = document.createElement("span");
      count.className = "cnt";
      count.textContent = `${members.filter((member) => member.isOn).length} of ${members.length} shown`;
      head.append(title, count);
      const list = document.createElement("ul");
      list.className = "lays";
      list.append(...members.map((member) => this.row(member)));
      parts.push(head, list);
    }
    const focused = document.activeElement?.id;
    home.replaceChildren(...parts);
    if (focused) document.getElementById(focused)?.focus();
  }

  private row(shown: Shown): HTMLLIElement {
    const { config } = shown;
    const row = document.createElement("li");
    row.className = shown.isOn ? "lay" : "lay off";
    const eye = document.createElement("button");
    eye.type = "button";
    eye.className = "eye";
    eye.id = `lay-${config.id}-eye`;
    eye.setAttribute("aria-pressed", String(shown.isOn));
    eye.setAttribute("aria-label", `Show ${config.name}`);
    eye.append(icon(shown.isOn ? "eye" : "eyeoff"));
    eye.addEventListener("click", () => {
      shown.isOn = !shown.isOn;
      this.apply(shown);
      this.list();
      this.pressed();
    });
    const swatch = document.createElement("span");
    swatch.className = `sw ${isOverlay(config) ? `sw-${config.style ?? "mask"}` : "sw-raster"}`;
    const name = document.createElement("span");
    name.className = "ln trunc";
    name.textContent = config.name;
    if (config.detail) {
      const small = document.createElement("small");
      small.textContent = config.detail;
      name.append(small);
    }
    const go = document.createElement("button");
    go.type = "button";
    go.className = "eye";
    go.id = `lay-${config.id}-go`;
    go.setAttribute("aria-label", `Zoom to ${config.name}`);
    go.append(icon("fit"));
    go.addEventListener("click", () => this.zoomTo(shown));
    const opacity = document.createElement("input");
    opacity.type = "range";
    opacity.min = "0";
    opacity.max = "100";
    opacity.step = "5";
    opacity.id = `lay-${config.id}-opacity`;
    opacity.value = String(Math.round(shown.opacity * 100));
    opacity.setAttribute("aria-label", `Opacity of ${config.name}, per cent`);
    opacity.addEventListener("input", () => {
      shown.opacity = Number(opacity.value) / 100;
      this.apply(shown);
    });
    row.append(eye, swatch, name, go, opacity);
    if (shown.isOn && config.legend && config.style !== "mask") row.append(legendOf(config.legend));
    return row;
  }

  private zoomTo(shown: Shown): void {
    const bounds = shown.config.bounds
      ? L.latLngBounds(toLeaflet(shown.config.bounds, this.config.crs))
      : shown.layer instanceof L.FeatureGroup
        ? shown.layer.getBounds()
        : null;
    if (bounds?.isValid()) this.map.fitBounds(bounds, { padding: [16, 16] });
  }

  private readout(): void {
    const home = document.getElementById(this.element.dataset.readout ?? "");
    for (const part of home?.querySelectorAll<HTMLElement>("[data-read]") ?? []) part.dataset.island = "read";
    const set = (name: string, text: string): void => {
      const part = home?.querySelector<HTMLElement>(`[data-read=${name}]`);
      if (part) part.textContent = text;
    };
    const at = (latlng: L.LatLng): void => {
      if (this.config.crs === "image") {
        const [col, row] = [Math.floor(latlng.lng), Math.floor(latlng.lat)];
        const size = this.config.size_px ?? [0, 0];
        set("pixel", col >= 0 && row >= 0 && col < size[0] && row < size[1] ? `px ${col}, ${row}` : "outside the picture");
        return;
      }
      const lon = wrapLon(latlng.lng);
      set("lonlat", `${signed(lon.toFixed(5))}, ${signed(latlng.lat.toFixed(5))}`);
      const native = this.native(this.config.grid ?? null, lon, latlng.lat);
      // where the grid itself is in degrees the figures would be those before
      const isMetric = native && !/\+proj=longlat/.test(this.config.grid?.proj4 ?? "");
      set("native", isMetric ? `x ${signed(native[0].toFixed(1))} y ${signed(native[1].toFixed(1))}` : "");
      const pixel = native && this.config.grid ? toPixel(this.config.grid, native[0], native[1]) : null;
      set("pixel", pixel ? `px ${pixel[0]}, ${pixel[1]}` : "");
    };
    this.map.on("mousemove", (event: L.LeafletMouseEvent) => at(event.latlng));
    this.map.on("move", () => at(this.map.getCenter()));
    at(this.map.getCenter());
    if (this.config.crs === "geo") scaleBar(this.map);
    const scale = (): void => {
      if (this.config.crs === "image") {
        const zoom = 2 ** (this.map.getZoom() - imageMaxZoom(this.config.size_px ?? [256, 256]));
        set("scale", `${Math.round(zoom * 100)} %`);
        return;
      }
      if (!hasOneScale(this.map)) {
        set("scale", "");
        return;
      }
      const centre = this.map.getCenter();
      const perPx = (40075016.686 * Math.cos((centre.lat * Math.PI) / 180)) / 2 ** (this.map.getZoom() + 8);
      const [size, unit] = perPx >= 10000 ? [perPx / 1000, "km"] : [perPx, "m"];
      set("scale", `${size >= 1 ? size.toFixed(size < 10 ? 1 : 0) : size.toFixed(2)} ${unit} per screen pixel`);
    };
    this.map.on("zoomend moveend", scale);
    scale();
  }

  /** Exact: proj4js with the CRS's own definition. Without one there are no native coordinates. */
  private native(grid: GridConfig | null, lon: number, lat: number): [number, number] | null {
    if (!grid?.proj4 || !window.proj4) return null;
    try {
      const point = window.proj4("+proj=longlat +datum=WGS84 +no_defs", grid.proj4, [lon, lat]);
      return point.every(Number.isFinite) ? point : null;
    } catch {
      return null;
    }
  }

  private keys(): void {
    const add = window.RSure?.addKey;
    if (!add) return;
    const step = (by: number): void => {
      for (const shown of this.shown.values()) {
        if (!isOverlay(shown.config)) continue;
        shown.opacity = Math.min(1, Math.max(0, shown.opacity + by));
        this.apply(shown);
      }
      this.list();
    };
    const hide = (isHidden: boolean): void => {
      if (this.isHidden === isHidden) return;
      this.isHidden = isHidden;
      for (const shown of this.shown.values()) this.apply(shown);
    };
    this.releases.push(
      add({ name: "map.opacity.down", label: "Overlays fainter", key: "[", run: () => step(-0.1) }),
      add({ name: "map.opacity.up", label: "Overlays stronger", key: "]", run: () => step(0.1) }),
      add({ name: "map.hide", label: "Hold to hide overlays", key: "space", run: () => hide(true), release: () => hide(false) }),
      add({ name: "map.in", label: "Zoom in", key: "+", run: () => void this.map.zoomIn() }),
      add({ name: "map.out", label: "Zoom out", key: "-", run: () => void this.map.zoomOut() }),
    );
  }
}
