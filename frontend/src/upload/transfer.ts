// One file on its way to the server (tus 1.0.0: creation, core, termination). No page in here.

export type State = "waiting" | "sending" | "paused" | "asleep" | "failed" | "done";

export interface View {
  state: State;
  sent: number;
  message: string;
}

/** An unfinished upload that the server knows from before. */
export interface Remembered {
  url: string;
  fingerprint: string;
  name: string;
  size: number;
  offset: number;
}

const CHUNK = 4 * 2 ** 20;
const RETRIES = [500, 1500, 4000, 8000, 15000];
const VERSION = "1.0.0";

/** By which a file is known again after a reload: what the browser tells of it without reading it. */
export function fingerprintOf(file: { name: string; size: number; lastModified: number }): string {
  return `${file.size}-${file.lastModified}-${file.name}`.slice(0, 200);
}

/** tus metadata: `key base64, key base64`. */
export function metadata(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([key, value]) => `${key} ${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}`)
    .join(",");
}

function headers(more: Record<string, string> = {}): Record<string, string> {
  const given = document.body.getAttribute("hx-headers");
  const token = given ? (JSON.parse(given) as Record<string, string>)["X-CSRFToken"] ?? "" : "";
  return { "Tus-Resumable": VERSION, "X-CSRFToken": token, Accept: "application/json", ...more };
}

class RefusedError extends Error {}

async function refusal(response: Response): Promise<RefusedError> {
  try {
    const { error } = (await response.json()) as { error: { what: string; why: string; fix: string } };
    return new RefusedError(`${error.what} ${error.why} ${error.fix}`);
  } catch {
    return new RefusedError(response.status === 403 ? "Your session has ended. Sign in again, then choose the file again." :
      `The server refused it (${response.status}).`);
  }
}

export class Transfer {
  state: State = "waiting";
  scene = "";
  vector = "";
  onChange: (view: View) => void = () => undefined;
  readonly fingerprint: string;
  private url = "";
  private offset = 0;
  private message = "";
  private request: XMLHttpRequest | null = null;

  constructor(
    readonly file: File,
    private readonly endpoint: string,
    private readonly project: string,
  ) {
    this.fingerprint = fingerprintOf(file);
  }

  get view(): View {
    return { state: this.state, sent: this.offset, message: this.message };
  }

  static async forget(url: string): Promise<void> {
    await fetch(url, { method: "DELETE", headers: headers() });
  }

  resumeFrom(held: Remembered): void {
    this.url = held.url;
    this.offset = held.offset;
  }

  pause(): void {
    this.set("paused", "Paused.");
    this.request?.abort();
  }

  wait(): void {
    this.set("waiting", "");
  }

  async cancel(): Promise<void> {
    this.set("failed", "Cancelled.");
    this.request?.abort();
    if (this.url) await Transfer.forget(this.url);
  }

  /** Sends until done, paused or refused; a lost connection is tried again with growing pauses. */
  async run(): Promise<void> {
    this.set("sending", "");
    for (let attempt = 0; this.state === "sending"; attempt += 1) {
      try {
        if (!this.url) await this.create();
        else if (attempt > 0 || this.offset > 0) await this.locate();
        let first = true;
        // an empty part at the end finishes an upload whose last answer was lost
        while (this.state === "sending" && (this.offset < this.file.size || first)) {
          first = false;
          const before = this.offset;
          await this.send();
          if (this.offset > before) attempt = 0;
          if (this.scene || this.vector) break;
        }
        if (this.state === "sending") this.set("done", "Uploaded.");
        return;
      } catch (error) {
        if ((this.state as State) !== "sending") return;
        if (error instanceof RefusedError) return this.set("failed", error.message);
        if (attempt >= RETRIES.length) {
          return this.set("paused", "UPLOAD_STALLED: the server does not answer. What arrived is kept; go on when you like.");
        }
        this.message = `The connection was lost; trying again (${attempt + 1} of ${RETRIES.length}).`;
        this.onChange(this.view);
        await new Promise((resolve) => setTimeout(resolve, RETRIES[attempt]));
      }
    }
  }

  private set(state: State, message: string): void {
    this.state = state;
    this.message = message;
    this.onChange(this.view);
  }

  private async create(): Promise<void> {
    const response = await fetch(this.endpoint, {
      method: "POST",
      headers: headers({
        "Upload-Length": String(this.file.size),
        "Upload-Metadata": metadata({ filename: this.file.name, project: this.project, fingerprint: this.fingerprint }),
      }),
    });
    if (response.status >= 500) throw new Error("server");
    if (!response.ok) throw await refusal(response);
    this.url = response.headers.get("Location") ?? "";
    this.offset = 0;
  }

  /** Where the server stands; an upload that it no longer knows begins anew. */
  private async locate(): Promise<void> {
    const response = await fetch(this.url, { method: "HEAD", headers: headers() });
    if (response.status === 404) {
      this.url = "";
      return this.create();
    }
    if (!response.ok) throw new Error("server");
    this.offset = Number(response.headers.get("Upload-Offset"));
    this.scene = response.headers.get("X-Scene") ?? "";
    this.vector = response.headers.get("X-Vector") ?? "";
  }

  private send(): Promise<void> {
    const start = this.offset;
    const part = this.file.slice(start, start + CHUNK);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      this.request = request;
      request.open("PATCH", this.url);
      for (const [name, value] of Object.entries(
        headers({ "Upload-Offset": String(start), "Content-Type": "application/offset+octet-stream" }),
      )) {
        request.setRequestHeader(name, value);
      }
      request.upload.onprogress = (event) => {
        this.onChange({ state: this.state, sent: start + Math.min(event.loaded, part.size), message: "" });
      };
      request.onabort = () => reject(new Error("aborted"));
      request.onerror = () => reject(new Error("network"));
      request.ontimeout = () => reject(new Error("timeout"));
      request.timeout = 120_000;
      request.onload = () => {
        if (request.status === 204) {
          this.offset = Number(request.getResponseHeader("Upload-Offset"));
          this.scene = request.getResponseHeader("X-Scene") ?? "";
          this.vector = request.getResponseHeader("X-Vector") ?? "";
          resolve();
        } else if (request.status === 409 || request.status >= 500) {
          reject(new Error("server")); // ask where it stands, then go on
        } else {
          void refusal(new Response(request.responseText, { status: request.status })).then(reject);
        }
      };
      request.send(part);
    });
  }
}
