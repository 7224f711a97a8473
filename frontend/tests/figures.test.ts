import { describe, expect, it } from "vitest";
import { areaText, crosses, digits, lengthText, planar, positionsOf, scaleStep, scaleVariation, sentence, signed } from "../src/map/figures";

describe("what is typed", () => {
  it("is positions, or nothing", () => {
    expect(positionsOf("-1.05,50.83; -1, 50.86")).toEqual([
      [-1.05, 50.83],
      [-1, 50.86],
    ]);
    expect(positionsOf("1 2")).toEqual([[1, 2]]);
    expect(positionsOf("1,2,3")).toBeNull();
    expect(positionsOf("here, there")).toBeNull();
    expect(positionsOf("")).toEqual([]);
  });
});

describe("in the plane of a picture", () => {
  const square: [number, number][] = [
    [0, 0],
    [10, 0],
    [10, 10],
    [0, 10],
  ];
  it("sums edges and encloses by the shoelace formula", () => {
    expect(planar(square)).toEqual({ length: 30, perimeter: 40, area: 100 });
    expect(planar([...square].reverse()).area).toBe(100);
  });
  it("sees an outline that crosses itself", () => {
    expect(crosses(square)).toBe(false);
    expect(crosses([square[0]!, square[2]!, square[1]!, square[3]!])).toBe(true);
  });
});

describe("the scale bar", () => {
  it("is the longest round length that fits, said with thousands apart", () => {
    const said = [0.07, 0.9, 1.2, 477, 4770, 2_900_000].map((most) => scaleStep(most));
    expect(said.map(([metres]) => +metres.toPrecision(6))).toEqual([0.05, 0.5, 1, 200, 2000, 2_000_000]);
    expect(said.map(([, text]) => text)).toEqual(["5 cm", "50 cm", "1 m", "200 m", "2 km", "2,000 km"]);
  });
  it("is none where a pixel at one edge is much longer than at the other", () => {
    expect(scaleVariation(50.7, 50.8)).toBeLessThan(1.01);
    expect(scaleVariation(-30, 30)).toBeCloseTo(1 / Math.cos(Math.PI / 6), 6);
    expect(scaleVariation(-60, 10)).toBeCloseTo(2, 6);
  });
});

describe("what is said", () => {
  it("has a true minus, which is understood when it is typed", () => {
    expect([digits(-1.5, 3), signed("-0.12"), signed("a-1")]).toEqual(["\u22121.5", "\u22120.12", "a-1"]);
    expect(positionsOf("\u22121.05, 50.83")).toEqual([[-1.05, 50.83]]);
  });
  it("has the unit that fits and names the method", () => {
    expect(lengthText(812.34)).toBe("812.3 m");
    expect(lengthText(12345.6)).toBe("12.346 km");
    expect(areaText(9000)).toBe("9,000 m²");
    expect(areaText(86_260_000)).toBe("86.26 km²");
    expect(areaText(32_000)).toBe("3.2 ha");
    expect(sentence({ length_m: 5, method: "planar" }, 2)).toBe("Distance 5 m; planar");
  });
  it("never gives an area for what crosses itself", () => {
    const text = sentence({ length_m: 30, perimeter_m: 40, area_m2: 0, is_crossing: true, method: "m" }, 4);
    expect(text).toContain("crosses itself: no area");
    expect(text).not.toContain("m²");
  });
});
