// Entry of every page: htmx with morphing, theme, keys, toasts, live fragments and small widgets.
import "../css/app.css";
import htmx from "htmx.org";
import { install as installBulk } from "./bulk";
import { install as installKeys } from "./keys";
import { install as installLive } from "./live";
import { install as installMorph } from "./morph";
import { install as installPalette } from "./palette";
import { install as installSteps } from "./steps";
import { install as installTheme } from "./theme";
import { install as installToasts } from "./toasts";
import { install as installWidgets } from "./widgets";

declare global {
  interface Window {
    htmx: typeof htmx;
  }
}

window.htmx = htmx;
htmx.config.allowEval = false;
htmx.config.includeIndicatorStyles = false;
htmx.config.historyCacheSize = 0;
// a morphed link must ask for its new address at once, not 20 ms later: keys come fast
htmx.config.defaultSettleDelay = 0;
// an error answer carries a fragment that says what, why and what to do: show it
htmx.config.responseHandling = [
  { code: "204", swap: false },
  { code: "[23]..", swap: true },
  { code: "[45]..", swap: true, error: true },
];

installMorph(htmx);
installTheme();
installKeys();
installToasts(htmx);
installWidgets();
installLive();
installSteps();
installPalette();
installBulk();
