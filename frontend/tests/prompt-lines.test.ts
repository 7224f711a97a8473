import { describe, expect, it } from "vitest";
import { promptFrom, promptLine, promptsSaid } from "../src/map/prompt-lines";

describe("lines of marks", () => {
  it("reads points, strokes and boxes, as they are written", () => {
    expect(promptFrom("in 1.5, 2")).toEqual({ kind: "point", inside: true, places: [[1.5, 2]] });
    expect(promptFrom(" OUT: (−1.2 50.7) ")).toEqual({ kind: "point", inside: false, places: [[-1.2, 50.7]] });
    expect(promptFrom("out 1, 2; 3, 4;")).toEqual({ kind: "stroke", inside: false, places: [[1, 2], [3, 4]] });
    expect(promptFrom("box 1, 2, 3, 4")).toEqual({ kind: "box", inside: true, places: [[1, 2], [3, 4]] });
  });
  it("reads nothing else", () => {
    for (const line of ["", "in", "here 1, 2", "in 1", "in 1, 2, 3", "in a, b", "in 1, NaN", "box 1, 2, 3", "box 3, 2, 1, 4", "box 1, 2, 1, 4"]) {
      expect(promptFrom(line), line).toBeNull();
    }
  });
  it("writes what it reads", () => {
    for (const line of ["in 1.5, 2", "out 1, 2; 3, 4", "box 1, 2, 3, 4"]) {
      const read = promptFrom(line);
      expect(read && promptLine(read, "image")).toBe(line);
    }
    expect(promptLine({ kind: "point", inside: true, places: [[-1.23456789012, 50]] }, "geo")).toBe("in -1.2345679, 50");
  });
  it("counts them in words", () => {
    const read = ["in 1, 2", "in 3, 4", "out 1, 2; 3, 4", "box 1, 2, 3, 4"].flatMap((line) => promptFrom(line) ?? []);
    expect(promptsSaid(read)).toBe("2 points inside, 1 stroke outside, a box");
    expect(promptsSaid([])).toBe("");
  });
});
