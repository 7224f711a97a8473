// Marks of what is to be segmented, as the lines of their field have them: "in x, y" and "out x, y" are points, with more pairs after
// ";" strokes; "box x, y, x, y" is a box. Longitude and latitude, or column and row.

export interface Prompt {
  kind: "point" | "stroke" | "box";
  inside: boolean;
  places: [number, number][];
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i;

function numbersOf(text: string): number[] | null {
  const parts = text.trim().replaceAll("\u2212", "-").replace(/^\(|\)$/g, "").trim().split(/\s*,\s*|\s+/);
  return parts.every((part) => NUMBER.test(part)) ? parts.map(Number) : null;
}

/** The mark that a line says; null where it says none. */
export function promptFrom(line: string): Prompt | null {
  const found = /^(in|out|box):?\s+(.+)$/i.exec(line.trim());
  if (!found) return null;
  const [, word = "", rest = ""] = found;
  if (word.toLowerCase() === "box") {
    const numbers = numbersOf(rest.replaceAll(";", ","));
    if (numbers?.length !== 4) return null;
    const [x0, y0, x1, y1] = numbers as [number, number, number, number];
    return x0 < x1 && y0 < y1 ? { kind: "box", inside: true, places: [[x0, y0], [x1, y1]] } : null;
  }
  const places = rest.split(";").filter((part) => part.trim() !== "").map(numbersOf);
  if (places.length === 0 || places.some((place) => place?.length !== 2)) return null;
  const kind = places.length === 1 ? "point" : "stroke";
  return { kind, inside: word.toLowerCase() === "in", places: places as [number, number][] };
}

export function promptLine(prompt: Prompt, crs: "geo" | "image"): string {
  const digits = crs === "geo" ? 7 : 2;
  const pairs = prompt.places.map((place) => place.map((v) => String(Number(v.toFixed(digits)))).join(", "));
  if (prompt.kind === "box") return `box ${pairs.join(", ")}`;
  return `${prompt.inside ? "in" : "out"} ${pairs.join("; ")}`;
}

/** "1 point inside, a box". */
export function promptsSaid(prompts: Prompt[]): string {
  const parts: string[] = [];
  for (const kind of ["point", "stroke"] as const) {
    for (const inside of [true, false]) {
      const n = prompts.filter((prompt) => prompt.kind === kind && prompt.inside === inside).length;
      if (n > 0) parts.push(`${n} ${kind}${n === 1 ? "" : "s"} ${inside ? "inside" : "outside"}`);
    }
  }
  if (prompts.some((prompt) => prompt.kind === "box")) parts.push("a box");
  return parts.join(", ");
}
