// Entry of the pages with a map: finds <div data-island="map" data-config="script-id">.
import "../css/map.css";
import { MapIsland } from "./map/island";

const islands = new Map<HTMLElement, MapIsland>();

function sync(): void {
  for (const element of document.querySelectorAll<HTMLElement>("[data-island=map]")) {
    const script = document.getElementById(element.dataset.config ?? "");
    if (!script?.textContent) continue;
    const island = islands.get(element);
    if (island) island.update(script.textContent);
    else islands.set(element, new MapIsland(element, script.textContent));
  }
  for (const [element, island] of islands) {
    if (element.isConnected) continue;
    island.remove();
    islands.delete(element);
  }
}

document.addEventListener("rsure:fresh", sync);
document.addEventListener("htmx:afterSettle", sync);
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", sync);
else sync();
