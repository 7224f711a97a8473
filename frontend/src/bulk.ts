// Many at once: <form data-bulk> with check boxes; [data-bulk-all] chooses all of them, [data-bulk-act] buttons work while some are
// chosen, [data-bulk-count] and [data-bulk-n] (in the dialogs that ask again) say how many.

function boxes(): HTMLInputElement[] {
  return [...document.querySelectorAll<HTMLInputElement>("[data-bulk] input[type=checkbox][name]")];
}

function say(): void {
  const all = boxes();
  const n = all.filter((box) => box.checked).length;
  for (const count of document.querySelectorAll<HTMLElement>("[data-bulk-count]")) {
    const text = `${n} selected`;
    if (count.textContent !== text) count.textContent = text;
  }
  for (const number of document.querySelectorAll<HTMLElement>("[data-bulk-n]")) number.textContent = String(n);
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-bulk-act]")) button.disabled = n === 0;
  for (const box of document.querySelectorAll<HTMLInputElement>("[data-bulk-all]")) {
    box.checked = n > 0 && n === all.length;
    box.indeterminate = n > 0 && n < all.length;
  }
}

export function install(): void {
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || !box.closest("[data-bulk]")) return;
    if (box.dataset.bulkAll !== undefined) for (const one of boxes()) one.checked = box.checked;
    say();
  });
  document.addEventListener("submit", (event) => {
    if (event.target instanceof Element && event.target.matches("[data-bulk]")) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", say);
  if (document.querySelector("[data-bulk]")) say();
}
