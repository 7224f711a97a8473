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
  it("renews a focused line of a list, and leaves a field that is typed in", () => {
    document.body.innerHTML = `<ol id="root"><li id="one" tabindex="-1" data-keep="tabindex"><b>old</b></li><li><input id="field" value="was"></li></ol>`;
    const line = document.getElementById("one") as HTMLElement;
    line.focus();
    expect(document.activeElement).toBe(line);
    const later = `<ol id="root"><li id="one"><b>new</b></li><li><input id="field" value="is"></li></ol>`;
    morph(document.getElementById("root") as Element, later, "outerHTML");
    expect(line.textContent).toBe("new");
    expect(line.tabIndex).toBe(-1);
    const field = document.getElementById("field") as HTMLInputElement;
    field.focus();
    field.value = "half typed";
    morph(document.getElementById("root") as Element, later, "outerHTML");
    expect(field.value).toBe("half typed");
  });
});
