// Swipe: two tile layers side by side under one divider. The divider is a real slider: arrows move it.
import * as L from "leaflet";

export class Swipe {
  isOn = false;
  private share = 0.5;
  private readonly handle: HTMLInputElement;
  private readonly line: HTMLDivElement;
  private readonly names = [document.createElement("span"), document.createElement("span")];
  private readonly redraw = (): void => this.clip();

  constructor(
    private readonly map: L.Map,
    home: HTMLElement,
    private left: L.GridLayer,
    private right: L.GridLayer,
  ) {
    this.handle = document.createElement("input");
    this.handle.type = "range";
    this.handle.min = "0";
    this.handle.max = "100";
    this.handle.value = "50";
    this.handle.className = "swipe-handle";
    this.handle.setAttribute("aria-label", "Swipe between the two dates, per cent from the left");
    this.handle.addEventListener("input", () => {
      this.share = Number(this.handle.value) / 100;
      this.clip();
    });
    this.line = document.createElement("div");
    this.line.className = "swipe-line";
    for (const [i, name] of this.names.entries()) name.className = i === 0 ? "swipe-name left" : "swipe-name right";
    this.line.append(...this.names);
    home.append(this.line, this.handle);
    map.on("move zoomend resize", this.redraw);
    // only where the page offers the button that takes it away again
    this.set(home.querySelector("[data-map=swipe]") !== null);
  }

  setLayers(left: L.GridLayer, right: L.GridLayer): void {
    this.unclip();
    this.left = left;
    this.right = right;
    this.clip();
  }

  /** What stands beside the line: which date is on which side. */
  setNames(left: string, right: string): void {
    for (const [i, text] of [left, right].entries()) {
      const name = this.names[i];
      if (name) name.textContent = text;
    }
  }

  toggle(): void {
    this.set(!this.isOn);
  }

  remove(): void {
    this.set(false);
    this.map.off("move zoomend resize", this.redraw);
    this.handle.remove();
    this.line.remove();
  }

  private set(isOn: boolean): void {
    this.isOn = isOn;
    this.handle.hidden = !isOn;
    this.line.hidden = !isOn;
    if (isOn) this.clip();
    else this.unclip();
  }

  private unclip(): void {
    for (const layer of [this.left, this.right]) layer.getContainer()?.style.removeProperty("clip-path");
  }

  /** Cuts again: a layer that was switched on has a new container. */
  refresh(): void {
    this.clip();
  }

  private clip(): void {
    if (!this.isOn) return;
    const size = this.map.getSize();
    const x = size.x * this.share;
    this.line.style.left = `${x}px`;
    // the tile container's origin moves with the map pane
    const topLeft = this.map.containerPointToLayerPoint([0, 0]);
    const bottomRight = this.map.containerPointToLayerPoint(size);
    const cut = topLeft.x + x;
    const ring = (x0: number, x1: number): string =>
      `polygon(${x0}px ${topLeft.y}px, ${x1}px ${topLeft.y}px, ${x1}px ${bottomRight.y}px, ${x0}px ${bottomRight.y}px)`;
    const [a, b] = [this.left.getContainer(), this.right.getContainer()];
    if (a) a.style.clipPath = ring(topLeft.x, cut);
    if (b) b.style.clipPath = ring(cut, bottomRight.x);
  }
}
