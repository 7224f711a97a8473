// @vitest-environment happy-dom
import { beforeEach, describe, expect, it, vi } from "vitest";
import { Transfer, fingerprintOf, metadata, type View } from "../src/upload/transfer";

/** A tus server in memory behind fetch and XMLHttpRequest; `fail` drops that many PATCHes. */
function server(fail = 0): { bytes: Uint8Array[]; offset: () => number } {
  const bytes: Uint8Array[] = [];
  let offset = 0;
  let length = 0;
  let failures = fail;
  vi.stubGlobal("fetch", async (_url: string, options: RequestInit) => {
    const sent = options.headers as Record<string, string>;
    if (options.method === "POST") {
      length = Number(sent["Upload-Length"]);
      return new Response(null, { status: 201, headers: { Location: "/u/1/" } });
    }
    return new Response(null, { status: 200, headers: { "Upload-Offset": String(offset) } });
  });
  class Request {
    upload: { onprogress: ((event: { loaded: number }) => void) | null } = { onprogress: null };
    status = 0;
    responseText = "";
    onload = (): void => undefined;
    onerror = (): void => undefined;
    onabort = (): void => undefined;
    private sent: Record<string, string> = {};
    open(): void {}
    abort(): void {
      this.onabort();
    }
    setRequestHeader(name: string, value: string): void {
      this.sent[name] = value;
    }
    getResponseHeader(name: string): string | null {
      return name === "Upload-Offset" ? String(offset) : offset === length ? "scene-1" : null;
    }
    send(part: Blob): void {
      void part.arrayBuffer().then((data) => {
        if (failures > 0) {
          failures -= 1;
          this.onerror();
          return;
        }
        this.status = Number(this.sent["Upload-Offset"]) === offset ? 204 : 409;
        if (this.status === 204) {
          bytes.push(new Uint8Array(data));
          offset += data.byteLength;
        }
        this.onload();
      });
    }
  }
  vi.stubGlobal("XMLHttpRequest", Request);
  return { bytes, offset: () => offset };
}

const file = (size: number): File => new File([new Uint8Array(size).fill(7)], "a.tif", { lastModified: 5 });

describe("transfer", () => {
  beforeEach(() => {
    document.body.setAttribute("hx-headers", '{"X-CSRFToken": "t"}');
    vi.unstubAllGlobals();
  });

  it("sends a file in parts and learns its scene", async () => {
    const held = server();
    const seen: View[] = [];
    const transfer = new Transfer(file(9 * 2 ** 20), "/u/", "p");
    transfer.onChange = (view) => seen.push(view);
    await transfer.run();
    expect(held.bytes.map((b) => b.length)).toEqual([4 * 2 ** 20, 4 * 2 ** 20, 2 ** 20]);
    expect(transfer.state).toBe("done");
    expect(transfer.scene).toBe("scene-1");
    expect(seen.at(-1)?.sent).toBe(9 * 2 ** 20);
  });

  it("goes on after a lost connection, without sending a byte twice", async () => {
    const held = server(1);
    const transfer = new Transfer(file(5 * 2 ** 20), "/u/", "p");
    await transfer.run();
    expect(transfer.state).toBe("done");
    expect(held.offset()).toBe(5 * 2 ** 20);
  });

  it("asks where the server stands when it is resumed", async () => {
    const held = server();
    const first = new Transfer(file(6 * 2 ** 20), "/u/", "p");
    first.onChange = (view) => {
      if (view.sent === 4 * 2 ** 20 && first.state === "sending") first.pause();
    };
    await first.run();
    const again = new Transfer(file(6 * 2 ** 20), "/u/", "p");
    again.resumeFrom({ url: "/u/1/", fingerprint: "", name: "", size: 0, offset: 1 });
    await again.run();
    expect(again.state).toBe("done");
    expect(held.bytes.reduce((n, b) => n + b.length, 0)).toBe(6 * 2 ** 20);
  });

  it("tells files apart and encodes names beyond ASCII", () => {
    expect(fingerprintOf(file(3))).toBe("3-5-a.tif");
    expect(metadata({ filename: "Würzburg.tif" })).toBe("filename V8O8cnpidXJnLnRpZg==");
  });
});
