import { describe, expect, it } from "vitest";
import { type GridConfig, degrees, geometryOf, graticuleStep, imageMaxZoom, toLeaflet, toPixel, wrapLon, viewOf, viewText } from "../src/map/config";

const utm: GridConfig = { epsg: "EPSG:32618", proj4: null, transform: [30, 0, 390000, 0, -30, 4491000], size_px: [300, 300], gsd_m: 30 };

describe("pixels", () => {
  it("finds the pixel under a coordinate", () => {
    expect(toPixel(utm, 390000.1, 4490999.9)).toEqual([0, 0]);
    expect(toPixel(utm, 390000 + 30 * 138.5, 4491000 - 30 * 216.5)).toEqual([138, 216]);
  });
  it("says nothing outside the grid or without one", () => {
    expect(toPixel(utm, 389999.9, 4490999)).toBeNull();
    expect(toPixel(utm, 399000, 4490999)).toBeNull();
    expect(toPixel({ ...utm, transform: null }, 390001, 4490999)).toBeNull();
    expect(toPixel({ ...utm, transform: [0, 0, 0, 0, 0, 0] }, 1, 1)).toBeNull();
  });
  it("inverts a rotated grid", () => {
    const rotated: GridConfig = { ...utm, transform: [0, 2, 100, 2, 0, 200] };
    expect(toPixel(rotated, 100 + 2 * 7.5, 200 + 2 * 3.5)).toEqual([3, 7]);
  });
});

describe("bounds", () => {
  it("goes on beyond 180 degrees where west lies east of east", () => {
    expect(toLeaflet([170, -10, -170, 10], "geo")).toEqual([
      [-10, 170],
      [10, 190],
    ]);
  });
  it("keeps rows downwards in a picture", () => {
    expect(toLeaflet([0, 0, 400, 300], "image")).toEqual([
      [0, 0],
      [300, 400],
    ]);
  });
  it("gives the zoom at which a picture pixel is a screen pixel", () => {
    expect(imageMaxZoom([256, 256])).toBe(0);
    expect(imageMaxZoom([257, 100])).toBe(1);
    expect(imageMaxZoom([10000, 10000])).toBe(6);
  });
});

describe("degrees", () => {
  it("wraps longitudes", () => {
    expect(wrapLon(190)).toBe(-170);
    expect(wrapLon(-540)).toBe(-180);
    expect(wrapLon(12.5)).toBeCloseTo(12.5);
  });
  it("names them with the decimals of the step", () => {
    expect(degrees(-7.5, 0.5, "lon")).toBe("7.5° W");
    expect(degrees(0, 30, "lat")).toBe("0°");
    expect(degrees(-30, 30, "lat")).toBe("30° S");
    expect(degrees(200, 10, "lon")).toBe("160° W");
    expect(degrees(1.25, 0.05, "lat")).toBe("1.25° N");
  });
  it("steps so that labels do not touch", () => {
    for (const span of [360, 90, 10, 1, 0.1, 0.01]) {
      expect(span / graticuleStep(span)).toBeLessThanOrEqual(6);
      expect(span / graticuleStep(span)).toBeGreaterThanOrEqual(2);
    }
  });
});

describe("regions", () => {
  it("closes the ring", () => {
    const ring = geometryOf([
      [0, 0],
      [1, 0],
      [1, 1],
    ]).coordinates[0];
    expect(ring).toHaveLength(4);
    expect(ring?.[3]).toEqual(ring?.[0]);
  });
});

describe("the view in the address", () => {
  it("is read as it was written, and nothing else is", () => {
    expect(viewText(12.25, 50.841234567, -1.02)).toBe("#map=12.25/50.84123/-1.02");
    expect(viewOf("#map=12.25/50.84123/-1.02")).toEqual([12.25, 50.84123, -1.02]);
    for (const other of ["", "#cell", "#map=1/2", "#map=a/b/c", "#map=1.2.3/1/2"]) expect(viewOf(other)).toBeNull();
  });
});
