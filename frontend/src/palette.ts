// Ctrl+K: find or run. Lists what the page can do (its keys), its own links, and what the server finds: projects, scenes, runs.
// A combobox with a listbox (WAI-ARIA 1.2): the field keeps the focus, arrows move, Enter runs, Esc closes.
import { addKey, bindings, shown } from "./keys";

interface Entry {
  title: string;
  detail: string;
  key?: string;
  run: () => void;
}

interface Found {
  kind: string;
  title: string;
  detail: string;
  url: string;
}

const MOST = 40;
const WAIT_MS = 150;

/** True where every word of the question occurs. */
export function matches(text: string, question: string): boolean {
  const low = text.toLowerCase();
  return question
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

class Palette {
  private readonly dialog = document.createElement("dialog");
  private readonly field = document.createElement("input");
  private readonly list = document.createElement("ul");
  private readonly note = document.createElement("p");
  private entries: Entry[] = [];
  private actions: Entry[] = [];
  private at = 0;
  private timer = 0;
  private asked = 0;

  constructor(private readonly address: string) {
    this.dialog.id = "palette";
    this.dialog.className = "dialog palette";
    this.dialog.setAttribute("aria-label", "Find or run");
    this.field.className = "inp l";
    this.field.type = "text";
    this.field.autocomplete = "off";
    this.field.spellcheck = false;
    this.field.placeholder = "Find a project, scene or run, or what this page can do";
    for (const [name, value] of Object.entries({
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "palette-list",
      "aria-autocomplete": "list",
      "aria-label": "Find or run",
      autofocus: "",
    })) {
      this.field.setAttribute(name, value);
    }
    this.list.id = "palette-list";
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "What was found");
    this.note.className = "xs mut pad";
    this.note.setAttribute("role", "status");
    this.dialog.append(this.field, this.list, this.note);
    document.body.append(this.dialog);
    this.field.addEventListener("input", () => this.look());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const row = event.target instanceof Element ? event.target.closest<HTMLElement>("[role=option]") : null;
      if (row) this.run(Number(row.dataset.at));
    });
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  open(): void {
    if (this.dialog.open) return;
    // before the dialog is modal: under it no key of the page is usable
    this.actions = bindings()
      .filter((binding) => binding.name !== "palette" && !binding.release)
      .map((binding) => ({ title: binding.label, detail: "on this page", key: shown(binding.key), run: () => binding.run(new KeyboardEvent("keydown")) }));
    for (const link of document.querySelectorAll<HTMLAnchorElement>(".top nav.nav a, .top .menu a[href]")) {
      const title = (link.textContent ?? "").trim();
      if (title && !this.actions.some((entry) => entry.title === title)) {
        this.actions.push({ title, detail: "page", run: () => location.assign(link.href) });
      }
    }
    this.field.value = "";
    this.dialog.showModal();
    this.field.focus();
    this.look();
  }

  private look(): void {
    const question = this.field.value.trim();
    const own = this.actions.filter((entry) => matches(`${entry.title} ${entry.detail}`, question));
    this.show(own);
    window.clearTimeout(this.timer);
    const turn = (this.asked += 1);
    if (question.length < 2) return;
    this.timer = window.setTimeout(() => {
      void fetch(`${this.address}?q=${encodeURIComponent(question)}`, { credentials: "same-origin" })
        .then((response) => (response.ok ? (response.json() as Promise<{ found: Found[] }>) : { found: [] }))
        .catch(() => ({ found: [] as Found[] }))
        .then(({ found }) => {
          if (turn !== this.asked || !this.dialog.open) return;
          const theirs = found.map((one) => ({
            title: one.title,
            detail: [one.kind, one.detail].filter(Boolean).join(" · "),
            run: () => location.assign(one.url),
          }));
          this.show([...theirs, ...own]);
        });
    }, WAIT_MS);
  }

  private show(entries: Entry[]): void {
    this.entries = entries.slice(0, MOST);
    this.at = 0;
    this.list.replaceChildren(
      ...this.entries.map((entry, at) => {
        const row = document.createElement("li");
        row.id = `palette-${at}`;
        row.dataset.at = String(at);
        row.setAttribute("role", "option");
        const title = document.createElement("span");
        title.className = "trunc grow";
        title.textContent = entry.title;
        const detail = document.createElement("span");
        detail.className = "xs mut trunc";
        detail.textContent = entry.detail;
        row.append(title, detail);
        if (entry.key) {
          const sign = document.createElement("kbd");
          sign.textContent = entry.key;
          row.append(sign);
        }
        return row;
      }),
    );
    this.note.textContent =
      this.entries.length === 0
        ? "Nothing found. Try fewer or other words."
        : entries.length > MOST
          ? `${MOST} of ${entries.length} shown`
          : `${entries.length} found`;
    this.mark();
  }

  private mark(): void {
    for (const [at, row] of [...this.list.children].entries()) {
      row.setAttribute("aria-selected", String(at === this.at));
      if (at === this.at) row.scrollIntoView({ block: "nearest" });
    }
    if (this.entries.length > 0) this.field.setAttribute("aria-activedescendant", `palette-${this.at}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  private key(event: KeyboardEvent): void {
    const n = this.entries.length;
    const to = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, Home: 0, End: n - 1 }[event.key];
    if (to !== undefined && n > 0 && !(event.key === "Home" || event.key === "End")) {
      event.preventDefault();
      this.at = (to + n) % n;
      this.mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.run(this.at);
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.dialog.close();
    } else return;
    event.stopPropagation();
  }

  private run(at: number): void {
    const entry = this.entries[at];
    if (!entry) return;
    this.dialog.close();
    entry.run();
  }
}

export function install(): void {
  const opener = document.querySelector<HTMLElement>("[data-palette]");
  if (!opener) return;
  let palette: Palette | null = null;
  const open = (): void => (palette ??= new Palette(opener.dataset.palette ?? "")).open();
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-palette]")) open();
  });
  addKey({ name: "palette", label: "Find or run", key: "ctrl+k", run: open });
}
