// The dates of a series: a select and a slider (twins) choose which scene the map shows; with the swipe on, which one is on its right.
//   <form data-dates data-island="dates"><select name="date"><option value="LAYER ID">…</select><input type="range">…</form>

export class Dates {
  private readonly select: HTMLSelectElement | null;
  private readonly slider: HTMLInputElement | null;

  constructor(
    private readonly home: HTMLElement,
    private readonly onChoice: (layerId: string) => void,
  ) {
    this.select = home.querySelector("select");
    this.slider = home.querySelector("input[type=range]");
    this.select?.addEventListener("change", () => this.go(this.select?.selectedIndex ?? 0));
    this.slider?.addEventListener("input", () => this.go(Number(this.slider?.value ?? 0)));
    home.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-date-step]") : null;
      if (button) this.go((this.select?.selectedIndex ?? 0) + Number(button.dataset.dateStep));
    });
    home.addEventListener("submit", (event) => event.preventDefault());
    this.mark();
  }

  /** The chosen layer's id. */
  get value(): string {
    return this.select?.value ?? "";
  }

  /** Shows a choice that was made elsewhere. */
  set(layerId: string): void {
    if (!this.select) return;
    this.select.value = layerId;
    this.mark();
  }

  private go(to: number): void {
    const select = this.select;
    if (!select) return;
    const at = Math.min(select.options.length - 1, Math.max(0, to));
    select.selectedIndex = at;
    this.mark();
    this.onChoice(select.value);
  }

  private mark(): void {
    const select = this.select;
    if (!select) return;
    const text = select.selectedOptions[0]?.textContent ?? "";
    if (this.slider) {
      this.slider.value = String(select.selectedIndex);
      this.slider.setAttribute("aria-valuetext", text);
    }
    for (const button of this.home.querySelectorAll<HTMLButtonElement>("[data-date-step]")) {
      const next = select.selectedIndex + Number(button.dataset.dateStep);
      button.disabled = next < 0 || next >= select.options.length;
    }
    const day = select.selectedOptions[0]?.dataset.day;
    for (const point of document.querySelectorAll<SVGElement>("svg.chart [data-day]")) {
      point.classList.toggle("now", point.dataset.day === day);
    }
  }
}
