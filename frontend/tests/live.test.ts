import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { onHint, seqOf } from "../src/live";

/** A server that answers the fragment as it stands now, after a turn of the event loop. */
let seq = 0;
let fetches = 0;

beforeEach(() => {
  seq = 1;
  fetches = 0;
  document.body.innerHTML = `<section id="trace" data-live="/ws/x/" data-live-url="/x/" data-seq="1"><p>1</p></section>`;
  vi.stubGlobal("fetch", async () => {
    fetches += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
    return new Response(`<section id="trace" data-live="/ws/x/" data-live-url="/x/" data-seq="${seq}"><p>${seq}</p></section>`);
  });
});

afterEach(() => vi.unstubAllGlobals());

const trace = (): HTMLElement => document.getElementById("trace") as HTMLElement;
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 60));

describe("hints", () => {
  it("do nothing when the page already has what they announce", async () => {
    onHint("/ws/x/", 1);
    await settle();
    expect(fetches).toBe(0);
  });
  it("fetch the fragment and morph it in place", async () => {
    const before = trace();
    seq = 7;
    onHint("/ws/x/", 7);
    await settle();
    expect(trace()).toBe(before);
    expect(seqOf(trace())).toBe(7);
    expect(trace().textContent).toBe("7");
  });
  it("are folded: 150 of them cost a few fetches and end at the newest", async () => {
    for (let k = 2; k <= 151; k += 1) {
      seq = k;
      onHint("/ws/x/", k);
    }
    await settle();
    expect(fetches).toBeLessThanOrEqual(3);
    expect(seqOf(trace())).toBe(151);
  });
  it("of another socket are not heard", async () => {
    onHint("/ws/y/", 9);
    await settle();
    expect(fetches).toBe(0);
  });
});
