// Live fragments. The record is the server; the socket only hints that there is more.
//
//   <section id="trace" data-live="/ws/runs/<id>/" data-live-url="/runs/<id>/trace/" data-seq="41">
//
// `data-live`     socket address; elements with one address share one socket
// `data-live-url` answers the same element, server-rendered, with its new data-seq
// `data-seq`      last event the fragment contains; sent on connect as {"seq": n}
// `data-live-done` present when nothing more will come: no socket is opened
//
// A hint is {"seq": n}. A fragment older than n is fetched and morphed; hints that come in meanwhile
// are folded into one more fetch, so 150 events cost two fetches and not 150. Where the socket is
// blocked the page polls the same addresses and shows the LIVE_OFF chip (#live-state).
import { morph } from "./morph";

export const POLL_MS = 3000;
/** Even with a socket the page looks now and then: a hint may be lost on its way, the record is not. */
export const GLANCE_MS = 20_000;
const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const OPEN_TIMEOUT_MS = 4000;

interface Channel {
  url: string;
  socket: WebSocket | null;
  isOpen: boolean;
  attempts: number;
  poll: number;
  glance: number;
  retry: number;
}

const channels = new Map<string, Channel>();
/** Fragment id -> is a fetch in flight, and did another hint come in since it began. */
const inFlight = new Map<string, boolean>();

function fragments(url?: string): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("[data-live-url]")].filter(
    (element) => element.dataset.live !== undefined && (url === undefined || element.dataset.live === url),
  );
}

export function seqOf(element: HTMLElement): number {
  const seq = Number(element.dataset.seq);
  return Number.isFinite(seq) ? seq : -1;
}

async function refresh(element: HTMLElement): Promise<boolean> {
  const { id } = element;
  if (inFlight.has(id)) {
    inFlight.set(id, true);
    return true;
  }
  inFlight.set(id, false);
  try {
    const response = await fetch(element.dataset.liveUrl ?? "", {
      headers: { "HX-Request": "true", "X-Live": "1", "X-Seq": String(seqOf(element)) },
      credentials: "same-origin",
    });
    if (response.status === 204) return true;
    if (response.redirected || response.status === 401 || response.status === 403) {
      setState("signed-out");
      return false;
    }
    if (!response.ok) return false;
    const text = await response.text();
    const now = document.getElementById(id);
    if (now) {
      morph(now, text, "outerHTML");
      const fresh = document.getElementById(id);
      if (fresh) {
        window.htmx?.process(fresh);
        fresh.dispatchEvent(new CustomEvent("rsure:fresh", { bubbles: true }));
      }
    }
    return true;
  } catch {
    return false;
  } finally {
    const again = inFlight.get(id) === true;
    inFlight.delete(id);
    const now = document.getElementById(id);
    if (again && now) void refresh(now);
  }
}

/** What a hint does: fetch every fragment of the channel that is older than it. */
export function onHint(url: string, seq: number | null): void {
  for (const element of fragments(url)) {
    if (seq === null || seqOf(element) < seq) void refresh(element);
  }
}

type State = "live" | "polling" | "signed-out" | "idle";

function setState(state: State): void {
  const chip = document.getElementById("live-state");
  if (!chip || chip.dataset.state === state) return;
  chip.dataset.state = state;
  // only the visible text of the state is exposed, so it is announced once by role=status
  for (const part of chip.querySelectorAll<HTMLElement>("[data-when]")) part.hidden = part.dataset.when !== state;
}

function overall(): void {
  const all = [...channels.values()];
  if (all.length === 0) setState("idle");
  else setState(all.every((channel) => channel.isOpen) ? "live" : "polling");
}

function startPolling(channel: Channel): void {
  if (channel.poll) return;
  channel.poll = window.setInterval(() => {
    if (document.visibilityState === "visible") onHint(channel.url, null);
  }, POLL_MS);
  onHint(channel.url, null);
}

function stopPolling(channel: Channel): void {
  window.clearInterval(channel.poll);
  channel.poll = 0;
}

function later(channel: Channel): void {
  if (channel.retry || !channels.has(channel.url)) return;
  const wait = RETRY_MS[Math.min(channel.attempts, RETRY_MS.length - 1)] ?? 10000;
  channel.attempts += 1;
  channel.retry = window.setTimeout(() => {
    channel.retry = 0;
    connect(channel);
  }, wait);
}

function lost(channel: Channel): void {
  channel.isOpen = false;
  channel.socket = null;
  // one quick reconnect is silent; from the second failure on the page polls
  if (channel.attempts > 0) startPolling(channel);
  overall();
  later(channel);
}

function connect(channel: Channel): void {
  const address = new URL(channel.url, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  let socket: WebSocket;
  try {
    socket = new WebSocket(address);
  } catch {
    channel.attempts += 1;
    lost(channel);
    return;
  }
  channel.socket = socket;
  // a proxy may swallow the handshake without an answer
  const timeout = window.setTimeout(() => socket.close(), OPEN_TIMEOUT_MS);
  socket.addEventListener("open", () => {
    window.clearTimeout(timeout);
    channel.isOpen = true;
    channel.attempts = 0;
    stopPolling(channel);
    const oldest = Math.min(...fragments(channel.url).map(seqOf));
    socket.send(JSON.stringify({ seq: Number.isFinite(oldest) ? oldest : -1 }));
    overall();
  });
  socket.addEventListener("message", (event) => {
    try {
      const hint = JSON.parse(String(event.data)) as { seq?: number };
      onHint(channel.url, typeof hint.seq === "number" ? hint.seq : null);
    } catch {
      onHint(channel.url, null);
    }
  });
  socket.addEventListener("close", () => {
    window.clearTimeout(timeout);
    if (channel.socket === socket) lost(channel);
  });
}

/** Opens what the page asks for now and closes what it no longer needs. */
export function sync(): void {
  const wanted = new Set<string>();
  for (const element of fragments()) {
    if (element.dataset.liveDone === undefined && element.dataset.live) wanted.add(element.dataset.live);
  }
  for (const [url, channel] of channels) {
    if (wanted.has(url)) continue;
    channels.delete(url);
    stopPolling(channel);
    window.clearInterval(channel.glance);
    window.clearTimeout(channel.retry);
    channel.socket?.close();
  }
  for (const url of wanted) {
    if (channels.has(url)) continue;
    const channel: Channel = { url, socket: null, isOpen: false, attempts: 0, poll: 0, glance: 0, retry: 0 };
    channels.set(url, channel);
    channel.glance = window.setInterval(() => {
      if (channel.isOpen && document.visibilityState === "visible") onHint(url, null);
    }, GLANCE_MS);
    connect(channel);
  }
  if (channels.size === 0) overall();
}

export function install(): void {
  sync();
  document.addEventListener("rsure:fresh", sync);
  document.addEventListener("htmx:afterSettle", sync);
  // a verdict or an undo of one's own: do not wait for the hint
  document.addEventListener("rsure:changed", () => {
    for (const element of fragments()) void refresh(element);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") for (const url of channels.keys()) onHint(url, null);
  });
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element) || !event.target.closest("[data-live-connect]")) return;
    for (const channel of channels.values()) {
      if (channel.isOpen) continue;
      window.clearTimeout(channel.retry);
      channel.retry = 0;
      connect(channel);
    }
  });
}
