// Small behaviours in markup, delegated from the document so that morphed content works at once.
//   tabs:      [role=tablist] > [role=tab][aria-controls=id]; arrows, Home, End
//   toggle:    <button data-toggle="id" aria-expanded="false"> shows and hides #id
//   drawer:    the same, with the class "drawer" on #id (narrow screens)
//   copy:      <button data-copy="text">
//   dialog:    <button data-dialog="id"> opens <dialog id>; [data-close] closes it
//   about:     one dialog for many things: its opener names its own by [data-about], which is written into [data-about-name],
//              and what the dialog sends goes to the address [data-about-post] of the opener
//   closes:    <form data-closes> closes its dialog once the server took it; an error stays in it
//   fill:      <button data-fill="#field" data-value="text"> writes into a field (suggestions)
//   autosubmit:<select data-autosubmit> sends its form on change
//   seen:      [data-seen] of a list that scrolls is scrolled to
//   range:     <input type=range data-output="id" data-unit="%"> writes its value into #id

function selectTab(tab: HTMLElement, focus: boolean): void {
  const list = tab.closest("[role=tablist]");
  if (!list) return;
  for (const other of list.querySelectorAll<HTMLElement>("[role=tab]")) {
    const isChosen = other === tab;
    other.setAttribute("aria-selected", String(isChosen));
    other.tabIndex = isChosen ? 0 : -1;
    const panel = document.getElementById(other.getAttribute("aria-controls") ?? "");
    if (panel) panel.hidden = !isChosen;
  }
  if (focus) tab.focus();
  tab.dispatchEvent(new CustomEvent("rsure:tab", { bubbles: true }));
}

function onClick(event: MouseEvent): void {
  if (!(event.target instanceof Element)) return;
  const target = event.target;
  const tab = target.closest<HTMLElement>("[role=tab][aria-controls]");
  if (tab) selectTab(tab, false);
  const toggle = target.closest<HTMLElement>("[data-toggle]");
  if (toggle) {
    const panel = document.getElementById(toggle.dataset.toggle ?? "");
    if (panel) {
      const willShow = panel.classList.contains("drawer") ? !panel.classList.contains("is-open") : panel.hidden;
      if (panel.classList.contains("drawer")) panel.classList.toggle("is-open", willShow);
      else panel.hidden = !willShow;
      toggle.setAttribute("aria-expanded", String(willShow));
      reachable();
    }
  }
  const copy = target.closest<HTMLElement>("[data-copy]");
  if (copy) {
    void navigator.clipboard.writeText(copy.dataset.copy ?? "").then(() =>
      document.dispatchEvent(new CustomEvent("toast", { detail: { text: "Copied." } })),
    );
  }
  const open = target.closest<HTMLElement>("[data-dialog]");
  if (open) {
    const dialog = document.getElementById(open.dataset.dialog ?? "");
    if (dialog instanceof HTMLDialogElement && !dialog.open) {
      if (open.dataset.aboutPost) {
        dialog.dataset.aboutPost = open.dataset.aboutPost;
        const name = dialog.querySelector("[data-about-name]");
        if (name) name.textContent = open.dataset.about ?? "";
      }
      dialog.showModal();
      // not into the first text field: keys that choose (1 to 6) must work at once
      if (!dialog.querySelector("[autofocus]")) {
        dialog.tabIndex = -1;
        dialog.focus();
      }
    }
  }
  if (target.closest("[data-close]")) target.closest("dialog")?.close();
  const fill = target.closest<HTMLElement>("[data-fill]");
  if (fill) {
    const field = document.querySelector<HTMLInputElement | HTMLTextAreaElement>(fill.dataset.fill ?? "");
    if (field) {
      field.value = fill.dataset.value ?? "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
    }
  }
}

function onKeydown(event: KeyboardEvent): void {
  const tab = event.target instanceof Element ? event.target.closest<HTMLElement>("[role=tab]") : null;
  if (!tab) return;
  const tabs = [...(tab.closest("[role=tablist]")?.querySelectorAll<HTMLElement>("[role=tab]") ?? [])];
  const at = tabs.indexOf(tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = tabs[(to + tabs.length) % tabs.length];
  if (next) selectTab(next, true);
}

function onInput(event: Event): void {
  const field = event.target;
  if (!(field instanceof HTMLInputElement) || field.type !== "range") return;
  const output = document.getElementById(field.dataset.output ?? "");
  if (output) output.textContent = `${field.value}${field.dataset.unit ? ` ${field.dataset.unit}` : ""}`;
}

/** The opened group of scenes is what a question is about: its boxes are checked, those of the others are not. */
function onPick(event: Event): void {
  const group = event.target;
  if (!(group instanceof HTMLDetailsElement) || !group.matches(".pick") || !group.open) return;
  for (const box of group.closest(".picker")?.querySelectorAll<HTMLInputElement>("input[name=scene]") ?? []) {
    const isMine = group.contains(box);
    if (!isMine) box.checked = false;
    else if (!group.querySelector("input:checked")) {
      for (const own of group.querySelectorAll<HTMLInputElement>("input[type=checkbox]")) own.checked = true;
    }
  }
}

/** What scrolls must be reachable without a pointer. */
function reachable(): void {
  for (const box of document.querySelectorAll<HTMLElement>(".tbl, .scroll, .ob > .col, .fs, .panelbox, .ans, .in > *")) {
    const style = getComputedStyle(box);
    const scrolls =
      (box.scrollWidth > box.clientWidth && style.overflowX !== "visible") ||
      (box.scrollHeight > box.clientHeight && style.overflowY !== "visible");
    if (!scrolls) {
      box.removeAttribute("tabindex");
      continue;
    }
    box.tabIndex = 0;
    if (box.tagName === "DIV" && !box.hasAttribute("role")) {
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", box.querySelector("caption, h2, h3")?.textContent?.trim() || "Scrolls");
    }
  }
}

/** What is cut off says the whole when it is pointed at. */
function onPoint(event: Event): void {
  const cut = event.target instanceof Element ? event.target.closest<HTMLElement>(".trunc, .crumb > *, .sc div > *, .snote") : null;
  if (!cut || (cut.title && !cut.dataset.cut)) return;
  const isCut = cut.scrollWidth > cut.clientWidth || cut.scrollHeight > cut.clientHeight + 2;
  cut.title = isCut ? (cut.textContent ?? "").trim().replace(/\s+/g, " ") : "";
  cut.toggleAttribute("data-cut", isCut);
}

export function install(): void {
  reachable();
  // the one of a long list that the page is about
  document.querySelector("[data-seen]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.addEventListener("pointerover", onPoint);
  for (const event of ["htmx:afterSettle", "rsure:fresh", "rsure:tab"]) document.addEventListener(event, reachable);
  window.addEventListener("resize", reachable);
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKeydown);
  document.addEventListener("input", onInput);
  document.addEventListener("toggle", onPick, true);
  document.addEventListener("htmx:configRequest", (event) => {
    const { detail } = event as CustomEvent<{ elt: Element; path: string }>;
    const about = detail.elt.closest<HTMLElement>("dialog[data-about-post]")?.dataset.aboutPost;
    if (about) detail.path = about;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, successful } = (event as CustomEvent<{ elt: Element; successful: boolean }>).detail;
    if (successful && elt.matches("form[data-closes]")) elt.closest("dialog")?.close();
  });
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field instanceof HTMLElement && field.matches("[data-autosubmit]")) field.closest("form")?.requestSubmit();
  });
}
