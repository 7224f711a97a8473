// Morph swap for htmx: `hx-swap="morph"` (outerHTML) or `morph:innerHTML`.
// What the person changed on the page survives: open details, chosen tabs, the field being typed in,
// and islands that own their subtree (`data-island`).
import type htmxType from "htmx.org";
import { Idiomorph } from "idiomorph/dist/idiomorph.esm.js";

/** Attributes the person's hand sets; the server's markup must not reset them. */
const OWNED: Record<string, string> = { DETAILS: "open", DIALOG: "open" };

export function isOwned(name: string, node: Element): boolean {
  if (OWNED[node.tagName] === name) return true;
  const keep = node.getAttribute("data-keep");
  return keep !== null && keep.split(",").includes(name);
}

/** Morphs `target` into `content` and tells islands that something may have changed. */
export function morph(target: Element, content: string | Node, style: "outerHTML" | "innerHTML"): Element[] {
  const nodes = Idiomorph.morph(target, content, {
    morphStyle: style,
    // what is being typed stays; of a focused thing that is no field (a line of the trace) the content must follow
    ignoreActiveValue: document.activeElement?.matches("input, textarea, select, [contenteditable]") ?? false,
    restoreFocus: true,
    callbacks: {
      beforeAttributeUpdated: (name: string, node: Element) => !isOwned(name, node),
      beforeNodeMorphed: (old: Node) => !(old instanceof HTMLElement && old.dataset.island !== undefined),
    },
  }) as Element[];
  return nodes;
}

export function install(htmx: typeof htmxType): void {
  htmx.defineExtension("morph", {
    isInlineSwap: (style: string) => style === "morph" || style === "morph:outerHTML",
    handleSwap: (style: string, target: Node, fragment: Node) => {
      if (!style.startsWith("morph") || !(target instanceof Element)) return false;
      return morph(target, fragment, style === "morph:innerHTML" ? "innerHTML" : "outerHTML");
    },
  } as Parameters<typeof htmx.defineExtension>[1]);
}
