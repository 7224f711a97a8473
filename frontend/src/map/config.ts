// What a page says to the map, in <script type="application/json" id="…">. templates/components/README.md
// documents every field for those who write pages.

export type GeoStyle = "mask" | "boxes" | "candidates" | "reference" | "unseen" | "region" | "footprint" | "marks";

export interface LayerConfig {
  id: string;
  name: string;
  /** "Results" or "Imagery": the headings of the layer list. */
  group?: string;
  detail?: string;
  kind: "tiles" | "geojson" | "image";
  /** tiles: …/{z}/{x}/{y}.png; geojson: address of a FeatureCollection; image: address of a picture. */
  url?: string;
  /** geojson given in the page itself. */
  data?: GeoJSON.GeoJsonObject;
  style?: GeoStyle;
  /** geo: [west, south, east, north] in degrees; image: [left, top, right, bottom] in pixels. */
  bounds?: [number, number, number, number];
  /** Largest zoom that has tiles of its own; above it Leaflet enlarges them, crisp. */
  max_native_zoom?: number;
  min_zoom?: number;
  opacity?: number;
  visible?: boolean;
  attribution?: string;
  /** Address of the legend of a result layer: {kind, unit, low, high, stops}. */
  legend?: string;
}

export interface GridConfig {
  /** "EPSG:32618"; shown in the read-out. */
  epsg: string | null;
  /** PROJ string of that CRS, from pyproj; null where the CRS has none: no native coordinates then. */
  proj4: string | null;
  /** Affine (a, b, c, d, e, f): x = a·col + b·row + c, y = d·col + e·row + f. */
  transform: [number, number, number, number, number, number] | null;
  size_px: [number, number];
  gsd_m: number | null;
}

export interface MapConfig {
  /** geo: EPSG:3857 map in lon/lat; image: pixels of one picture without a CRS, row 0 on top. */
  crs: "geo" | "image";
  /** image only: width, height. */
  size_px?: [number, number];
  /** Where to look first; geo: [west, south, east, north], image: pixels. West > east crosses 180°. */
  bounds?: [number, number, number, number] | null;
  /** Address of the land outline; absent: none. */
  land?: string | null;
  graticule?: boolean;
  layers: LayerConfig[];
  grid?: GridConfig | null;
  /** CSS selector of the field that receives the drawn region as a GeoJSON geometry. */
  draw?: string | null;
  /** CSS selector of the group of fields of the two marked places (templates/marks.html). */
  marks?: string | null;
  /** CSS selector of the group of the field of what is to be segmented (templates/prompts.html). */
  prompts?: string | null;
  /** Ids of two layers compared left | right. */
  swipe?: [string, string] | null;
}

export type Bounds = [[number, number], [number, number]];

/** Largest zoom at which one picture pixel is one screen pixel; at zoom 0 the picture fits in 256 px. */
export function imageMaxZoom(size: [number, number]): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(size[0], size[1], 1) / 256)));
}

/** Leaflet's [[south, west], [north, east]]; a box over the antimeridian goes on beyond 180°. */
export function toLeaflet(bounds: [number, number, number, number], crs: "geo" | "image"): Bounds {
  const [left, a, right, b] = bounds;
  if (crs === "image") {
    return [
      [a, left],
      [b, right],
    ];
  }
  const east = left > right ? right + 360 : right;
  return [
    [a, left],
    [b, east],
  ];
}

/** Zoom, latitude and longitude (row and column of a picture) from an address's "#map=12/50.84/-1.02"; null where it has none. */
export function viewOf(hash: string): [number, number, number] | null {
  const found = /^#map=(-?[\d.]+)\/(-?[\d.]+)\/(-?[\d.]+)$/.exec(hash);
  const numbers = found?.slice(1).map(Number);
  return numbers && numbers.every(Number.isFinite) ? (numbers as [number, number, number]) : null;
}

export function viewText(zoom: number, lat: number, lng: number): string {
  return `#map=${+zoom.toFixed(2)}/${+lat.toFixed(5)}/${+lng.toFixed(5)}`;
}

/** Longitude in [-180, 180). */
export function wrapLon(lon: number): number {
  return ((((lon + 180) % 360) + 360) % 360) - 180;
}

/** Column and row under native coordinates, or null outside the grid or where the grid is degenerate. */
export function toPixel(grid: GridConfig, x: number, y: number): [number, number] | null {
  if (!grid.transform) return null;
  const [a, b, c, d, e, f] = grid.transform;
  const det = a * e - b * d;
  if (det === 0) return null;
  const col = Math.floor((e * (x - c) - b * (y - f)) / det);
  const row = Math.floor((a * (y - f) - d * (x - c)) / det);
  return col >= 0 && row >= 0 && col < grid.size_px[0] && row < grid.size_px[1] ? [col, row] : null;
}

/** Smallest step of the graticule in degrees at which labels (about 72 px each) do not touch. */
export function graticuleStep(span: number, widthPx = 360): number {
  const lines = Math.min(12, Math.max(2, widthPx / 72));
  const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60];
  return steps.find((step) => span / step <= lines) ?? 60;
}

/** "7.5° W"; decimals follow the step. */
export function degrees(value: number, step: number, axis: "lon" | "lat"): string {
  const number = axis === "lon" ? wrapLon(value) : value;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const sign = number === 0 ? "" : axis === "lon" ? (number < 0 ? " W" : " E") : number < 0 ? " S" : " N";
  return `${Math.abs(number).toFixed(decimals)}°${sign}`;
}

/** Rings are closed, longitudes stay as drawn: a box over 180° goes on beyond it. */
export function geometryOf(corners: [number, number][]): GeoJSON.Polygon {
  const ring = corners.map(([x, y]) => [round(x), round(y)]);
  const first = ring[0];
  if (first) ring.push([...first]);
  return { type: "Polygon", coordinates: [ring] };
}

function round(value: number): number {
  return Math.round(value * 1e7) / 1e7;
}
