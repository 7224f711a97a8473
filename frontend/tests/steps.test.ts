import { describe, expect, it } from "vitest";
import { matches } from "../src/palette";
import { next } from "../src/steps";

function item(isOpen: boolean): HTMLElement {
  return { dataset: isOpen ? { open: "" } : {} } as unknown as HTMLElement;
}

describe("moving through a list", () => {
  const all = [item(false), item(true), item(false), item(true)];
  it("goes on by one and stays at the ends", () => {
    expect(next(all, all[0]!, 1, false)).toBe(all[1]);
    expect(next(all, all[3]!, 1, false)).toBeNull();
    expect(next(all, null, 1, false)).toBe(all[0]);
    expect(next(all, null, -1, false)).toBe(all[3]);
  });
  it("jumps to what is still open", () => {
    expect(next(all, all[1]!, 1, true)).toBe(all[3]);
    expect(next(all, all[1]!, -1, true)).toBeNull();
  });
});

describe("the palette", () => {
  it("finds by every word, in any order", () => {
    expect(matches("Fit the map", "map fit")).toBe(true);
    expect(matches("Fit the map", "map zoom")).toBe(false);
    expect(matches("anything", "")).toBe(true);
  });
});
