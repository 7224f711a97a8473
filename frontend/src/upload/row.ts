// One upload in the list: name, bar, state, buttons. Built once, then only changed.
import type { View } from "./transfer";

function sized(bytes: number): string {
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const) {
    if (bytes >= factor) return `${(bytes / factor).toFixed(1)} ${unit}`;
  }
  return `${bytes} B`;
}

function button(text: string, onPress: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "btn sm";
  element.textContent = text;
  element.addEventListener("click", onPress);
  return element;
}

export class TransferRow {
  onPause = (): void => undefined;
  onResume = (): void => undefined;
  onCancel = (): void => undefined;
  private readonly bar = document.createElement("progress");
  private readonly text = document.createElement("span");
  private readonly pause: HTMLButtonElement;
  private readonly resume: HTMLButtonElement;
  private readonly cancel: HTMLButtonElement;

  constructor(
    private readonly item: HTMLElement,
    name: string,
    private readonly size: number,
  ) {
    const title = document.createElement("b");
    title.className = "med trunc";
    title.textContent = name;
    this.bar.max = size;
    this.bar.setAttribute("aria-label", `Upload of ${name}`);
    this.text.className = "xs sec num";
    this.pause = button("Pause", () => this.onPause());
    this.resume = button("Go on", () => this.onResume());
    this.cancel = button("Cancel", () => this.onCancel());
    const actions = document.createElement("span");
    actions.className = "row";
    actions.append(this.pause, this.resume, this.cancel);
    item.replaceChildren(title, this.bar, this.text, actions);
  }

  show(view: View): void {
    this.item.dataset.state = view.state;
    this.bar.value = view.sent;
    const share = this.size ? Math.floor((100 * view.sent) / this.size) : 0;
    const words = { waiting: "Waits", sending: "Sending", paused: "Paused", asleep: "Not finished", failed: "Stopped", done: "Uploaded" };
    this.text.textContent = `${words[view.state]}: ${sized(view.sent)} of ${sized(this.size)}, ${share} %. ${view.message}`.trim();
    this.pause.hidden = view.state !== "sending";
    this.resume.hidden = view.state !== "paused";
    this.cancel.hidden = view.state === "done" || view.state === "failed";
  }
}
