// Keyboard shortcuts. A page declares them in markup:
//   <button data-key="a" data-key-name="verdict.right">Right <kbd>A</kbd></button>
// A key presses the first visible, enabled element that carries it. Islands add keys with `addKey`.
// Dead while typing; each can be remapped, all can be switched off (WCAG 2.1.4); `?` lists them.

export interface Binding {
  /** Stable name by which a remapping is stored. */
  name: string;
  label: string;
  /** As written in `data-key`: "a", "shift+j", "ctrl+z", "space", "[". */
  key: string;
  run: (event: KeyboardEvent) => void;
  release?: () => void;
}

const STORE = "rsure.keys";
const islands = new Map<string, Binding>();

interface Settings {
  off: boolean;
  map: Record<string, string>;
}

function settings(): Settings {
  try {
    const stored = JSON.parse(localStorage.getItem(STORE) ?? "{}") as Partial<Settings>;
    return { off: stored.off === true, map: stored.map ?? {} };
  } catch {
    return { off: false, map: {} };
  }
}

function store(value: Settings): void {
  localStorage.setItem(STORE, JSON.stringify(value));
}

/** "Ctrl+Shift+Z" and the like, in one spelling: modifiers in the order ctrl, shift, then the key. */
export function spell(event: KeyboardEvent): string {
  const key = event.key === " " ? "space" : event.key.toLowerCase();
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push("ctrl");
  if (event.altKey) parts.push("alt");
  // a printable sign such as "?" already contains its shift
  if (event.shiftKey && (key.length > 1 || /[a-z]/.test(key))) parts.push("shift");
  return [...parts, key].join("+");
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest("[contenteditable=true]")) return true;
  if (target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit", "range", "file"].includes(target.type);
}

function isUsable(element: HTMLElement): boolean {
  // inside a list of things, keys are those of the current one (steps.ts)
  const scope = element.closest("[data-key-scope]");
  if (scope && !scope.hasAttribute("aria-current")) return false;
  if (element.matches(":disabled, [aria-disabled=true]") || element.closest("[inert]")) return false;
  const modal = document.querySelector("dialog:modal");
  if (modal && !modal.contains(element)) return false;
  return element.checkVisibility ? element.checkVisibility({ visibilityProperty: true }) : element.offsetParent !== null;
}

function labelOf(element: HTMLElement): string {
  const label = element.dataset.keyLabel ?? element.getAttribute("aria-label");
  if (label) return label;
  const copy = element.cloneNode(true) as HTMLElement;
  copy.querySelectorAll("kbd, svg, .cnt").forEach((child) => child.remove());
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

/** Every binding of the page as it stands now, after remapping. */
export function bindings(): Binding[] {
  const { map } = settings();
  const found: Binding[] = [];
  const seen = new Set<string>();
  for (const element of document.querySelectorAll<HTMLElement>("[data-key]")) {
    if (!isUsable(element)) continue;
    const label = labelOf(element);
    const name = element.dataset.keyName ?? label;
    if (seen.has(name)) continue;
    seen.add(name);
    found.push({
      name,
      label,
      key: map[name] ?? (element.dataset.key ?? "").toLowerCase(),
      run: () => {
        if (isTyping(element)) element.focus();
        else element.click();
      },
    });
  }
  for (const binding of islands.values()) {
    if (!seen.has(binding.name)) found.push({ ...binding, key: map[binding.name] ?? binding.key });
  }
  return found;
}

/** Adds a key that no element carries (map moves, hold to hide). Returns how to take it away. */
export function addKey(binding: Binding): () => void {
  islands.set(binding.name, binding);
  return () => islands.delete(binding.name);
}

/** The name that holds `key` already, if it is another one. */
export function conflict(name: string, key: string): string | null {
  return bindings().find((binding) => binding.key === key && binding.name !== name)?.label ?? null;
}

export function remap(name: string, key: string | null): void {
  const value = settings();
  if (key === null) delete value.map[name];
  else value.map[name] = key;
  store(value);
}

export function switchOff(off: boolean): void {
  store({ ...settings(), off });
}

export function shown(key: string): string {
  const names: Record<string, string> = { ctrl: "Ctrl", shift: "Shift", alt: "Alt", space: "Space", escape: "Esc", enter: "Enter" };
  return key
    .split(/\+(?=.)/)
    .map((part) => names[part] ?? (part.length === 1 ? part.toUpperCase() : part))
    .join(" ");
}

function openList(): void {
  let dialog = document.querySelector<HTMLDialogElement>("#keys-list");
  if (dialog?.open) return;
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys-list";
    dialog.className = "dialog";
    dialog.setAttribute("aria-labelledby", "keys-title");
    document.body.append(dialog);
  }
  const panel = dialog;
  const render = (): void => {
    const rows = bindings().sort((a, b) => a.label.localeCompare(b.label));
    panel.replaceChildren();
    const head = document.createElement("header");
    const title = document.createElement("h2");
    title.id = "keys-title";
    title.textContent = "Keys on this page";
    const close = document.createElement("button");
    close.type = "button";
    close.className = "btn sm";
    close.textContent = "Close";
    close.addEventListener("click", () => panel.close());
    const gap = document.createElement("span");
    gap.className = "sp";
    head.append(title, gap, close);
    const toggle = document.createElement("label");
    toggle.className = "check";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !settings().off;
    box.addEventListener("change", () => switchOff(!box.checked));
    toggle.append(box, "Single-key shortcuts are on");
    const note = document.createElement("p");
    note.className = "sm sec";
    note.textContent = "Keys do nothing while you type. Choose a key to change it, then press the new one.";
    const table = document.createElement("table");
    const body = table.createTBody();
    for (const binding of rows) {
      const row = body.insertRow();
      row.insertCell().textContent = binding.label;
      const cell = row.insertCell();
      cell.className = "r";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn sm";
      button.setAttribute("aria-label", `Change the key of ${binding.label}, now ${shown(binding.key)}`);
      const sign = document.createElement("kbd");
      sign.textContent = shown(binding.key);
      button.append(sign);
      button.addEventListener("click", () => {
        sign.textContent = "press a key";
        const take = (event: KeyboardEvent): void => {
          if (["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
          event.preventDefault();
          event.stopPropagation();
          window.removeEventListener("keydown", take, true);
          if (event.key !== "Escape") {
            const key = spell(event);
            const other = conflict(binding.name, key);
            if (other) {
              note.textContent = `${shown(key)} already belongs to ${other}. Nothing changed.`;
              sign.textContent = shown(binding.key);
              return;
            }
            remap(binding.name, key);
          }
          render();
        };
        window.addEventListener("keydown", take, true);
      });
      cell.append(button);
    }
    const reset = document.createElement("button");
    reset.type = "button";
    reset.className = "btn sm";
    reset.textContent = "Back to the shipped keys";
    reset.addEventListener("click", () => {
      store({ ...settings(), map: {} });
      render();
    });
    const content = document.createElement("div");
    content.className = "bd stack";
    content.append(toggle, note, table, reset);
    panel.append(head, content);
  };
  render();
  panel.showModal();
}

function onKeydown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const key = spell(event);
  const typing = isTyping(event.target);
  if (event.key === "Escape" && typing) {
    (event.target as HTMLElement).blur();
    return;
  }
  const binding = bindings().find((candidate) => candidate.key === key);
  // while typing only combinations with Ctrl that a page declared itself work, never the editor's own undo
  if (typing && !(key.startsWith("ctrl+") && binding && !/^ctrl\+(shift\+)?[zyxcva]$/.test(key))) return;
  if (key === "?") {
    event.preventDefault();
    openList();
    return;
  }
  if (!binding) return;
  const single = !/^(ctrl|alt)\+/.test(key);
  if (single && settings().off) return;
  // Space and Enter keep their meaning on a focused control
  if ((key === "space" || key === "enter") && (event.target as Element).closest?.("button, a, summary, input, [role=tab]")) return;
  event.preventDefault();
  binding.run(event);
}

function onKeyup(event: KeyboardEvent): void {
  const key = spell(event);
  for (const binding of bindings()) if (binding.release && binding.key === key) binding.release();
}

export function install(): void {
  document.addEventListener("keydown", onKeydown);
  document.addEventListener("keyup", onKeyup);
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-keys-open]")) openList();
  });
  window.RSure = { ...(window.RSure ?? {}), addKey };
}

declare global {
  interface Window {
    RSure: { addKey?: typeof addKey };
  }
}
