// What is typed and said while measuring: positions, lengths and areas as people write them. No map, no server.
import { wrapLon } from "./config";

export interface Figures {
  length_m: number;
  perimeter_m?: number;
  area_m2?: number;
  is_crossing?: boolean;
  method: string;
}

export type Position = [number, number];

/** "-1.05,50.83; -1.00,50.86" as positions; null where it is no such list. */
export function positionsOf(text: string): Position[] | null {
  const parts = text.split(/[;\n]/).map((part) => part.trim()).filter(Boolean);
  const out: Position[] = [];
  for (const part of parts) {
    const numbers = part.replaceAll("\u2212", "-").split(/[\s,]+/).map(Number);
    if (numbers.length !== 2 || !numbers.every(Number.isFinite)) return null;
    out.push(numbers as Position);
  }
  return out;
}

/** A true minus before what is negative; only for what is read, never for what is sent. */
export function signed(text: string): string {
  return text.replace(/^-(?=\d)/, "\u2212");
}

export function digits(value: number, most: number): string {
  return signed(value.toLocaleString("en-GB", { maximumSignificantDigits: most }));
}

/** The longest round length (1, 2 or 5 of a power of ten, in metres) that is at most so long, and how it is said. */
export function scaleStep(most: number): [number, string] {
  const power = 10 ** Math.floor(Math.log10(most) + 1e-9);
  const metres = (most / power >= 5 ? 5 : most / power >= 2 ? 2 : 1) * power;
  return [metres, metres < 0.995 ? `${digits(metres * 100, 3)} cm` : lengthText(metres)];
}

/** Metres as people say them: 812 m, 1.234 km. */
export function lengthText(metres: number): string {
  return metres < 1000 ? `${digits(metres, 4)} m` : `${digits(metres / 1000, 5)} km`;
}

/** How much the scale of Web Mercator varies over what is seen: 1 where it is the same all over. */
export function scaleVariation(south: number, north: number): number {
  const cos = (lat: number): number => Math.cos((Math.min(85, Math.abs(lat)) * Math.PI) / 180);
  const largest = south < 0 && north > 0 ? 1 : Math.max(cos(south), cos(north));
  return largest / Math.min(cos(south), cos(north));
}

/** Square metres as people say them: 812 m², 3.2 ha, 86.26 km². */
export function areaText(squareMetres: number): string {
  if (squareMetres < 10_000) return `${digits(squareMetres, 4)} m²`;
  return squareMetres < 1_000_000 ? `${digits(squareMetres / 10_000, 5)} ha` : `${digits(squareMetres / 1_000_000, 5)} km²`;
}

/** Length, perimeter and area in the plane of the pixels, in pixels; the area by the shoelace formula. */
export function planar(points: readonly Position[]): { length: number; perimeter: number; area: number } {
  let length = 0;
  let twice = 0;
  for (const [i, [x, y]] of points.entries()) {
    const [u, v] = points[(i + 1) % points.length] as Position;
    twice += x * v - u * y;
    if (i + 1 < points.length) length += Math.hypot(u - x, v - y);
  }
  const [first, last] = [points[0], points.at(-1)];
  const close = first && last ? Math.hypot(first[0] - last[0], first[1] - last[1]) : 0;
  return { length, perimeter: length + close, area: Math.abs(twice) / 2 };
}

/** True where two edges of the closed ring cross: it encloses no one area. */
export function crosses(points: readonly Position[]): boolean {
  const side = (a: Position, b: Position, c: Position): number =>
    Math.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]));
  const n = points.length;
  for (let i = 0; i < n; i += 1) {
    for (let j = i + 2; j < n; j += 1) {
      if (i === 0 && j === n - 1) continue;
      const [a, b, c, d] = [points[i], points[(i + 1) % n], points[j], points[(j + 1) % n]] as [Position, Position, Position, Position];
      if (side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0) return true;
    }
  }
  return false;
}

export function sentence(figures: Figures, n: number): string {
  const parts = [n > 2 ? `Line ${lengthText(figures.length_m)}` : `Distance ${lengthText(figures.length_m)}`];
  if (figures.is_crossing) parts.push("the outline crosses itself: no area");
  else if (figures.area_m2 !== undefined) parts.push(`area ${areaText(figures.area_m2)}`, `perimeter ${lengthText(figures.perimeter_m ?? 0)}`);
  return `${parts.join(" · ")}; ${figures.method}`;
}

/** What the field of "go to" holds: positions are clicked on copies of the world, so longitudes are wrapped. */
export function placeOf(text: string, crs: "geo" | "image"): [number, number] | null {
  const found = positionsOf(text.replace(/;$/, ""));
  const [place] = found ?? [];
  if (!place || found?.length !== 1) return null;
  if (crs === "image") return [place[1], place[0]];
  if (Math.abs(place[1]) > 90 || Math.abs(place[0]) > 360) return null;
  return [place[1], wrapLon(place[0])];
}
