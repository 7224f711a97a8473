// Theme: follows the system until the person chooses. The choice is a cookie, so that the server
// renders `data-theme` on <html> and no page flashes.

export type Theme = "light" | "dark";

export function current(): Theme {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function choose(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  document.cookie = `rsure_theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  document.dispatchEvent(new CustomEvent("rsure:theme", { detail: theme }));
}

export function install(): void {
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("[data-theme-switch]")) {
      choose(current() === "dark" ? "light" : "dark");
    }
  });
}
