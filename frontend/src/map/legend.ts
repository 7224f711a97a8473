// The legend of a result layer: a colour bar with its ends and unit, or named colours. Asked for once, kept by address.

interface Legend {
  kind: "mask" | "classes" | "raster";
  unit: string;
  stops: { value?: number; label?: string; color: string }[];
}

const kept = new Map<string, Promise<Legend | null>>();
const SVG = "http://www.w3.org/2000/svg";

function asked(url: string): Promise<Legend | null> {
  let legend = kept.get(url);
  if (!legend) {
    legend = fetch(url, { credentials: "same-origin" })
      .then((response) => (response.ok ? (response.json() as Promise<Legend>) : null))
      .catch(() => null);
    kept.set(url, legend);
  }
  return legend;
}

/** Three significant digits, a true minus sign, no exponent for what a person compares. */
export function figure(value: number): string {
  const size = Math.abs(value);
  const text = size >= 1000 ? Math.round(value).toLocaleString("en-GB") : String(Number(value.toPrecision(3)));
  return text.replace("-", "\u2212");
}

export function unitText(unit: string): string {
  if (unit === "degree") return "\u00b0";
  return unit === "1" || unit === "" ? "" : unit.replace(/2$/, "\u00b2");
}

function svg(name: string, attributes: Record<string, string>): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element as SVGElement;
}

let count = 0;

function bar(legend: Legend): Node[] {
  const id = `ramp-${(count += 1)}`;
  const picture = svg("svg", { class: "lg-bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  const ramp = svg("linearGradient", { id });
  for (const [at, stop] of legend.stops.entries()) {
    ramp.append(svg("stop", { offset: String(at / Math.max(1, legend.stops.length - 1)), "stop-color": stop.color }));
  }
  picture.append(ramp, svg("rect", { width: "100", height: "8", fill: `url(#${id})` }));
  const ends = document.createElement("span");
  ends.className = "lg-ends num";
  const middle = legend.stops[Math.floor(legend.stops.length / 2)];
  for (const stop of [legend.stops[0], middle, legend.stops.at(-1)]) {
    const end = document.createElement("span");
    end.textContent = stop?.value === undefined ? "" : figure(stop.value);
    ends.append(end);
  }
  const unit = unitText(legend.unit);
  if (unit) ends.lastElementChild?.append(unit === "\u00b0" ? unit : ` ${unit}`);
  return [picture, ends];
}

function names(legend: Legend): Node[] {
  return legend.stops.map((stop) => {
    const line = document.createElement("span");
    line.className = "lg-name";
    const box = svg("svg", { class: "lg-box", viewBox: "0 0 8 8", "aria-hidden": "true" });
    box.append(svg("rect", { width: "8", height: "8", fill: stop.color }));
    line.append(box, stop.label ?? String(stop.value ?? ""));
    return line;
  });
}

/** A place that fills itself when the legend has come; it stays empty where there is none. */
export function legendOf(url: string): HTMLDivElement {
  const home = document.createElement("div");
  home.className = "lg";
  void asked(url).then((legend) => {
    if (legend) home.append(...(legend.kind === "raster" ? bar(legend) : names(legend)));
  });
  return home;
}
