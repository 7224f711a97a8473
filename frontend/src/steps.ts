// One of a list of things is current, and keys act on it:
//
//   <ol data-steps aria-label="Trace"><li data-key-scope data-open>…<button data-key="a">Right</button></li>…</ol>
//
// J and K move on, with Shift to the next that is still open (`data-open`). Keys declared inside an item work for the current one
// alone (keys.ts). What is current is the person's (aria-current), so a morph keeps it.
import { addKey } from "./keys";

const ITEMS = "[data-steps] > [data-key-scope]";

function items(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>(ITEMS)].filter((item) => item.checkVisibility?.() ?? true);
}

export function current(): HTMLElement | null {
  return document.querySelector<HTMLElement>(`${ITEMS}[aria-current]`);
}

function choose(item: HTMLElement, isMoved: boolean): void {
  for (const other of document.querySelectorAll(`${ITEMS}[aria-current]`)) if (other !== item) other.removeAttribute("aria-current");
  item.setAttribute("aria-current", "step");
  if (!isMoved) return;
  item.tabIndex = -1;
  item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

/** The item `by` places on among those that count; at the ends it stays. */
export function next(all: readonly HTMLElement[], at: HTMLElement | null, by: 1 | -1, isOpenOnly: boolean): HTMLElement | null {
  const from = at ? all.indexOf(at) : by > 0 ? -1 : all.length;
  for (let i = from + by; i >= 0 && i < all.length; i += by) {
    const item = all[i];
    if (item && (!isOpenOnly || item.dataset.open !== undefined)) return item;
  }
  return null;
}

function move(by: 1 | -1, isOpenOnly: boolean): void {
  const item = next(items(), current(), by, isOpenOnly);
  if (item) choose(item, true);
}

/** The first is current until somebody chooses. */
function settle(): void {
  if (current()) return;
  const [first] = document.querySelectorAll<HTMLElement>(ITEMS);
  if (first) choose(first, false);
}

let isBound = false;

function bind(): void {
  settle();
  if (isBound || !document.querySelector("[data-steps]")) return;
  isBound = true;
  addKey({ name: "step.next", label: "Next observation", key: "j", run: () => move(1, false) });
  addKey({ name: "step.previous", label: "Previous observation", key: "k", run: () => move(-1, false) });
  addKey({ name: "step.next.open", label: "Next that needs review", key: "shift+j", run: () => move(1, true) });
  addKey({ name: "step.previous.open", label: "Previous that needs review", key: "shift+k", run: () => move(-1, true) });
}

export function install(): void {
  bind();
  for (const event of ["rsure:fresh", "htmx:afterSettle"]) document.addEventListener(event, bind);
  document.addEventListener("click", (event) => {
    const item = event.target instanceof Element ? event.target.closest<HTMLElement>(ITEMS) : null;
    if (item) choose(item, false);
  });
  document.addEventListener("focusin", (event) => {
    const item = event.target instanceof Element ? event.target.closest<HTMLElement>(ITEMS) : null;
    if (item) choose(item, false);
  });
}
