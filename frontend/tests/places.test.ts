import { describe, expect, it } from "vitest";
import { middleOf, movedTo, placeFrom, placeText } from "../src/map/places";

describe("the place that a field says", () => {
  it("is a point of two numbers or a box of four", () => {
    expect(placeFrom("-1.5, 50.25")).toEqual([-1.5, 50.25]);
    expect(placeFrom(" (120 80) ")).toEqual([120, 80]);
    expect(placeFrom("10; 20; 30; 44")).toEqual([10, 20, 30, 44]);
  });
  it("is none where numbers are missing, in excess, not finite, or a box is turned over", () => {
    for (const text of ["", "1", "1,2,3", "1,2,3,4,5", "NaN, 2", "1e9999, 2", "30, 20, 10, 44", "10, 20, 30, 20", "a, b", "1,,2"]) {
      expect(placeFrom(text), text).toBeNull();
    }
  });
  it("is written as it is read", () => {
    expect(placeText([-1.23456789012, 50.7], "geo")).toBe("-1.2345679, 50.7");
    expect(placeText([10.126, 20, 30.5, 44], "image")).toBe("10.13, 20, 30.5, 44");
  });
});

describe("a mark that is moved", () => {
  it("keeps its size", () => {
    expect(middleOf([10, 20, 30, 44])).toEqual([20, 32]);
    expect(movedTo([10, 20, 30, 44], 25, 30)).toEqual([15, 18, 35, 42]);
    expect(movedTo([1, 2], 3, 4)).toEqual([3, 4]);
  });
});
