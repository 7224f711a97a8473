import { beforeEach, describe, expect, it, vi } from "vitest";
import { addKey, bindings, conflict, install, isTyping, remap, spell, switchOff } from "../src/keys";

const press = (key: string, init: KeyboardEventInit = {}, target: EventTarget = document.body): void => {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init }));
};

install();

beforeEach(() => {
  localStorage.clear();
  document.body.innerHTML = `
    <button id="right" data-key="a" data-key-name="verdict.right">Right <kbd>A</kbd></button>
    <button id="off" data-key="x" data-key-name="off" disabled>Off</button>
    <button id="send" data-key="ctrl+enter" data-key-name="send">Ask</button>
    <textarea id="text"></textarea>`;
  // happy-dom lays nothing out
  Element.prototype.checkVisibility = () => true;
});

const clicks = (id: string): ReturnType<typeof vi.fn> => {
  const heard = vi.fn();
  document.getElementById(id)?.addEventListener("click", heard);
  return heard;
};

describe("spelling", () => {
  it("puts modifiers in one order and keeps signs as they are", () => {
    expect(spell(new KeyboardEvent("keydown", { key: "Z", ctrlKey: true, shiftKey: true }))).toBe("ctrl+shift+z");
    expect(spell(new KeyboardEvent("keydown", { key: "?", shiftKey: true }))).toBe("?");
    expect(spell(new KeyboardEvent("keydown", { key: " " }))).toBe("space");
  });
});

describe("pressing", () => {
  it("clicks the element that carries the key", () => {
    const heard = clicks("right");
    press("a");
    expect(heard).toHaveBeenCalledOnce();
  });
  it("is dead while typing, but for combinations with Ctrl that the page declares", () => {
    const right = clicks("right");
    const send = clicks("send");
    const text = document.getElementById("text") as HTMLTextAreaElement;
    expect(isTyping(text)).toBe(true);
    press("a", {}, text);
    press("Enter", { ctrlKey: true }, text);
    expect(right).not.toHaveBeenCalled();
    expect(send).toHaveBeenCalledOnce();
  });
  it("leaves disabled buttons alone", () => {
    const heard = clicks("off");
    press("x");
    expect(heard).not.toHaveBeenCalled();
    expect(bindings().map((binding) => binding.name)).not.toContain("off");
  });
  it("can be switched off for single keys", () => {
    const right = clicks("right");
    const send = clicks("send");
    switchOff(true);
    press("a");
    press("Enter", { ctrlKey: true });
    expect(right).not.toHaveBeenCalled();
    expect(send).toHaveBeenCalledOnce();
  });
  it("follows a remapping and tells a conflict", () => {
    const heard = clicks("right");
    expect(conflict("verdict.right", "ctrl+enter")).toBe("Ask");
    expect(conflict("verdict.right", "k")).toBeNull();
    remap("verdict.right", "k");
    press("a");
    expect(heard).not.toHaveBeenCalled();
    press("k");
    expect(heard).toHaveBeenCalledOnce();
  });
  it("runs and releases keys of islands", () => {
    const [run, release] = [vi.fn(), vi.fn()];
    const take = addKey({ name: "map.hide", label: "Hide", key: "space", run, release });
    press(" ");
    document.body.dispatchEvent(new KeyboardEvent("keyup", { key: " ", bubbles: true }));
    expect(run).toHaveBeenCalledOnce();
    expect(release).toHaveBeenCalledOnce();
    take();
    press(" ");
    expect(run).toHaveBeenCalledOnce();
  });
  it("lists every key of the page on ?", () => {
    HTMLDialogElement.prototype.showModal ??= function open(this: HTMLDialogElement): void {
      this.open = true;
    };
    press("?");
    const list = document.querySelector("#keys-list");
    expect(list?.textContent).toContain("Right");
    expect(list?.textContent).toContain("Ask");
  });
});
