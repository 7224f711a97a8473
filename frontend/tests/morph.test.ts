import { beforeEach, describe, expect, it } from "vitest";
import { morph } from "../src/morph";

beforeEach(() => {
  document.body.innerHTML = `<div id="root">
    <details id="more"><summary>More</summary><p>old</p></details>
    <button id="tab" data-keep="aria-selected" aria-selected="true">Tab</button>
    <div id="map" data-island="map"><canvas></canvas></div>
    <p id="text">old</p></div>`;
});

const fresh = `<div id="root">
    <details id="more"><summary>More</summary><p>new</p></details>
    <button id="tab" data-keep="aria-selected" aria-selected="false">Tab</button>
    <div id="map" data-island="map"></div>
    <p id="text">new</p></div>`;

describe("morph", () => {
  it("brings new text and keeps what the person set", () => {
    (document.getElementById("more") as HTMLDetailsElement).open = true;
    morph(document.getElementById("root") as Element, fresh, "outerHTML");
    expect(document.getElementById("text")?.textContent).toBe("new");
    expect((document.getElementById("more") as HTMLDetailsElement).open).toBe(true);
    expect(document.getElementById("tab")?.getAttribute("aria-selected")).toBe("true");
  });
  it("leaves islands alone", () => {
    const map = document.getElementById("map");
    morph(document.getElementById("root") as Element, fresh, "outerHTML");
    expect(document.getElementById("map")).toBe(map);
    expect(map?.querySelector("canvas")).not.toBeNull();
  });
});
