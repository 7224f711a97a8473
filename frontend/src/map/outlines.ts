// Vector overlays with a double stroke: a dark halo under a light core is legible on any ground,
// by day and by night (mock principle 7). Styles are CSS classes (css/map.css), so that forced
// colours and printing work; Leaflet's own stroke attributes are switched off.
import * as L from "leaflet";
import type { GeoStyle, LayerConfig } from "./config";

interface Properties {
  label?: string | number;
  title?: string;
  href?: string;
  is_selected?: boolean;
}

const FILLED = new Set<GeoStyle>(["mask", "unseen"]);
/** What has scores: the slider leaves out what lies below. */
const SCORED = new Set<GeoStyle>(["boxes", "candidates"]);

interface Held {
  group: L.FeatureGroup;
  data: GeoJSON.GeoJsonObject;
  style: GeoStyle;
  crs: "geo" | "image";
}

export function scoreOf(feature: GeoJSON.Feature): number | null {
  const score: unknown = feature.properties?.score;
  return typeof score === "number" ? score : null;
}

function collectionOf(data: GeoJSON.GeoJsonObject): GeoJSON.FeatureCollection | null {
  return data.type === "FeatureCollection" ? (data as GeoJSON.FeatureCollection) : null;
}

/** The features at or above a score; those without one stay. */
export function atLeast(data: GeoJSON.GeoJsonObject, score: number): GeoJSON.GeoJsonObject {
  const collection = collectionOf(data);
  if (!collection) return data;
  return { ...collection, features: collection.features.filter((f) => (scoreOf(f) ?? Infinity) >= score) } as GeoJSON.FeatureCollection;
}

export class Outlines {
  /** Marked places carry their letters unless they stand on the map as pins that can be moved. */
  isLettered = true;
  /** Called when a scored layer has come. */
  onScored: () => void = () => undefined;
  private readonly scored: Held[] = [];
  private score = -Infinity;

  constructor(private readonly map: L.Map) {}

  /** Draws boxes and candidates from this score on; says how many of how many. */
  setScore(score: number): { shown: number; all: number } {
    this.score = score;
    for (const held of this.scored) {
      held.group.clearLayers();
      this.draw(held.group, atLeast(held.data, score), held.style, held.crs);
      held.group.fire("filled");
    }
    const features = this.scored.flatMap(({ data }) => collectionOf(data)?.features ?? []);
    return { shown: features.filter((f) => (scoreOf(f) ?? Infinity) >= score).length, all: features.length };
  }

  layer(config: LayerConfig, crs: "geo" | "image"): L.FeatureGroup {
    const group = L.featureGroup();
    const style = config.style ?? "mask";
    const fill = (data: GeoJSON.GeoJsonObject): void => {
      group.clearLayers();
      // words and outlines that carry a score are candidates as boxes are
      const isScored = SCORED.has(style) || (collectionOf(data)?.features.some((f) => scoreOf(f) !== null) ?? false);
      if (isScored) this.scored.push({ group, data, style, crs });
      this.draw(group, isScored ? atLeast(data, this.score) : data, style, crs);
      group.fire("filled");
      if (isScored) this.onScored();
    };
    if (config.data) fill(config.data);
    else if (config.url) {
      void fetch(config.url, { credentials: "same-origin" })
        .then((response) => (response.ok ? response.json() : Promise.reject(new Error(String(response.status)))))
        .then(fill)
        .catch(() => group.fire("tileerror"));
    }
    return group;
  }

  /** Opacity of a whole overlay: on each path, since all vector layers share one SVG pane. */
  setOpacity(layer: L.Layer, opacity: number): void {
    const set = (): void => {
      (layer as L.FeatureGroup).eachLayer((part) =>
        (part as L.GeoJSON).eachLayer?.((path) => {
          const node = (path as L.Path).getElement?.() as SVGElement | undefined;
          node?.setAttribute("opacity", String(opacity));
        }),
      );
    };
    set();
    layer.off("filled add").on("filled add", () => window.requestAnimationFrame(set));
  }

  private draw(group: L.FeatureGroup, data: GeoJSON.GeoJsonObject, style: GeoStyle, crs: "geo" | "image"): void {
    // picture coordinates are [column, row]; lat is the row
    const coordsToLatLng = (coords: [number, number] | [number, number, number]): L.LatLng => L.latLng(coords[1], coords[0]);
    const common = { coordsToLatLng, interactive: false } as L.GeoJSONOptions;
    const path = (className: string): L.PolylineOptions => ({ className, stroke: true, weight: 1, fill: false, smoothFactor: crs === "image" ? 0 : 0.5 });
    if (FILLED.has(style)) {
      group.addLayer(L.geoJSON(data, { ...common, style: { ...path(`geo-fill geo-fill-${style}`), stroke: false, fill: true } }));
    }
    group.addLayer(L.geoJSON(data, { ...common, style: path("geo-halo"), pointToLayer: (_, at) => L.circleMarker(at, { radius: 6 }) }));
    group.addLayer(
      L.geoJSON(data, {
        ...common,
        interactive: true,
        style: (feature) => path(
            `geo-core ${style}${feature?.geometry.type === "Point" ? " point" : ""}${(feature?.properties as Properties | null)?.is_selected ? " sel" : ""}`,
          ),
        pointToLayer: (_, at) => L.circleMarker(at, { radius: 6 }),
        onEachFeature: (feature, layer) =>
          this.describe((feature.properties ?? {}) as Properties, layer, style === "marks" && this.isLettered),
      }),
    );
  }

  private describe(properties: Properties, layer: L.Layer, isLettered: boolean): void {
    const label = properties.label === undefined ? null : String(properties.label);
    const text = isLettered ? label : (properties.title ?? label);
    if (text) {
      const node = document.createElement("span");
      node.textContent = text; // never HTML: names in files are data
      if (isLettered) layer.bindTooltip(node, { permanent: true, direction: "right", offset: [8, 0], className: "geo-tip mark-tip" });
      else layer.bindTooltip(node, { sticky: true, className: "geo-tip" });
    }
    const { href } = properties;
    const isLink = href?.startsWith("/") === true;
    if (href && isLink) layer.on("click", () => window.location.assign(href));
    // named, and no stop of Tab each: a tooltip makes of each path one, and there may be hundreds; their list is the way by keys
    layer.on("add", () =>
      window.queueMicrotask(() => {
        const node = (layer as L.Path).getElement?.();
        if (!node) return;
        node.setAttribute("tabindex", "-1");
        if (text) node.setAttribute("aria-label", text);
        if (text) node.setAttribute("role", isLink ? "link" : "img");
      }),
    );
  }
}
