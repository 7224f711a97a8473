// Places as the fields of the two marks have them: a point or a box, in longitude and latitude or in column and row.
import { signed } from "./figures";

/** [x, y], or [least x, least y, greatest x, greatest y]; longitude and latitude, or column and row. */
export type Place = [number, number] | [number, number, number, number];

/** The place that a field says; null where it says none. */
export function placeFrom(text: string): Place | null {
  const parts = text.trim().replaceAll("\u2212", "-").replace(/^\(|\)$/g, "").split(/\s*[,;]\s*|\s+/);
  const numbers = parts.map((part) => (/^[-+]?(\d+\.?\d*|\.\d+)$/.test(part) ? Number(part) : NaN));
  if (numbers.some((n) => !Number.isFinite(n))) return null;
  const [x0, y0, x1, y1] = numbers;
  if (numbers.length === 2) return [x0 as number, y0 as number];
  if (numbers.length !== 4 || !((x0 as number) < (x1 as number) && (y0 as number) < (y1 as number))) return null;
  return numbers as [number, number, number, number];
}

export function placeText(place: Place, crs: "geo" | "image"): string {
  const places = crs === "geo" ? 7 : 2;
  return place.map((v) => String(Number(v.toFixed(places)))).join(", ");
}

/** The same as people read it; the text of the field keeps its hyphens. */
export function placeSaid(place: Place, crs: "geo" | "image"): string {
  return placeText(place, crs).split(", ").map(signed).join(", ");
}

export function middleOf(place: Place): [number, number] {
  return place.length === 2 ? place : [(place[0] + place[2]) / 2, (place[1] + place[3]) / 2];
}

/** The place with its middle elsewhere. */
export function movedTo(place: Place, x: number, y: number): Place {
  if (place.length === 2) return [x, y];
  const [w, h] = [(place[2] - place[0]) / 2, (place[3] - place[1]) / 2];
  return [x - w, y - h, x + w, y + h];
}
