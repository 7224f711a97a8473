// Toasts. Two doors: Django messages rendered into #toasts at page load, and the response header
//   HX-Trigger: {"toast": {"text": "14 -> 12 fields", "undo_url": "/…/undo/", "level": "info"}}
// Undo posts to `undo_url`, redo to `redo_url`; Ctrl+Z and Ctrl+Shift+Z press the newest. A toast with an undo stays until it is
// closed (WCAG 2.2.1), others go after 8 s unless the pointer or the focus is on them.
import type htmxType from "htmx.org";

export interface Toast {
  text: string;
  undo_url?: string;
  undo_label?: string;
  redo_url?: string;
  level?: "info" | "warn" | "block";
}

const STAY_MS = 8000;

function button(className: string, ...content: (string | Node)[]): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.className = className;
  element.append(...content);
  return element;
}

function arm(element: HTMLElement): void {
  const hasUndo = element.querySelector("[data-undo]") !== null;
  element.querySelector("[data-toast-close]")?.addEventListener("click", () => element.remove());
  if (hasUndo) return;
  let timer = window.setTimeout(() => element.remove(), STAY_MS);
  const hold = (): void => window.clearTimeout(timer);
  const go = (): void => {
    timer = window.setTimeout(() => element.remove(), STAY_MS);
  };
  element.addEventListener("pointerenter", hold);
  element.addEventListener("focusin", hold);
  element.addEventListener("pointerleave", go);
  element.addEventListener("focusout", go);
}

export function show(toast: Toast, htmx: typeof htmxType): void {
  const region = document.querySelector<HTMLElement>("#toasts");
  if (!region) return;
  // only one undo at a time is offered: the newest
  region.querySelectorAll(".toast [data-undo]").forEach((old) => old.closest(".toast")?.remove());
  const element = document.createElement("div");
  element.className = `toast ${toast.level ?? "info"}`;
  const text = document.createElement("span");
  text.textContent = toast.text;
  element.append(text);
  for (const way of [
    { url: toast.undo_url, name: "undo", key: "ctrl+z", sign: "Ctrl Z", label: "Undo", text: toast.undo_label ?? "Undo" },
    { url: toast.redo_url, name: "redo", key: "ctrl+shift+z", sign: "Ctrl Shift Z", label: "Redo", text: "Redo" },
  ]) {
    if (!way.url) continue;
    const { url } = way;
    const sign = document.createElement("kbd");
    sign.textContent = way.sign;
    const press = button("btn sm", `${way.text} `, sign);
    press.dataset.undo = url;
    press.dataset.key = way.key;
    press.dataset.keyName = way.name;
    press.dataset.keyLabel = way.label;
    press.addEventListener("click", () => {
      press.disabled = true;
      void htmx.ajax("post", url, { source: document.body, target: document.body, swap: "none" }).then(() => {
        element.remove();
        document.body.dispatchEvent(new CustomEvent("rsure:changed", { bubbles: true }));
      });
    });
    element.append(press);
  }
  const close = button("btn sm ic", "×");
  close.setAttribute("aria-label", "Close");
  close.dataset.toastClose = "";
  element.append(close);
  region.append(element);
  arm(element);
}

/** "What. Why. What to do." from an error fragment, or the status where the answer is something else. */
export function errorText(xhr: Pick<XMLHttpRequest, "responseText" | "status">): string {
  const box = new DOMParser().parseFromString(xhr.responseText, "text/html").querySelector(".err");
  const parts = [box?.querySelector("b")?.textContent, box?.querySelector("p")?.textContent].filter(Boolean);
  return parts.length > 0 ? parts.join(" ").replace(/\s+/g, " ").trim() : `The server refused this (status ${xhr.status}).`;
}

export function install(htmx: typeof htmxType): void {
  document.querySelectorAll<HTMLElement>("#toasts .toast").forEach(arm);
  document.addEventListener("toast", (event) => show((event as CustomEvent<Toast>).detail, htmx));
  // what an answer tells of is lost where its button was replaced while it was under way: then the page is told
  document.addEventListener("htmx:beforeSend", (event) => {
    const { elt, xhr } = (event as CustomEvent<{ elt: Element; xhr: XMLHttpRequest }>).detail;
    xhr.addEventListener("load", () => {
      const told = elt.isConnected ? null : xhr.getResponseHeader("HX-Trigger");
      if (!told?.startsWith("{")) return;
      for (const [name, detail] of Object.entries(JSON.parse(told) as Record<string, unknown>))
        document.body.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
    });
  });
  // an error whose fragment has no place on the page (hx-swap="none") is said in a toast
  document.addEventListener("htmx:responseError", (event) => {
    const { elt, xhr } = (event as CustomEvent<{ elt: Element; xhr: XMLHttpRequest }>).detail;
    if (elt.closest("[hx-swap]")?.getAttribute("hx-swap") !== "none") return;
    show({ text: errorText(xhr), level: "block" }, htmx);
  });
  // a request that never reached the server
  document.addEventListener("htmx:sendError", () =>
    show({ text: "The server did not answer. Nothing was changed; try again.", level: "warn" }, htmx),
  );
}
