// Entry of the imagery page: resumable uploads by the tus 1.0 core protocol, several files at once.
//   <section data-island="upload" data-url="/api/v1/uploads/" data-project="ID" data-refresh="#scenes" data-scene-url="/imagery/">
//     <div data-drop> with an <input type=file multiple data-files>, <ul data-list> (its <li data-upload> are unfinished uploads
//     that the server remembers), <p data-say> (live region)
// A file is known again by a fingerprint, so after a reload the person chooses it again and it goes on where it stood.
import { Transfer, type Remembered, type View } from "./upload/transfer";
import { TransferRow } from "./upload/row";

const AT_ONCE = 2;

class UploadIsland {
  private readonly transfers: Transfer[] = [];
  private readonly rows = new Map<Transfer, TransferRow>();
  private readonly remembered: Remembered[] = [];
  private batch: Transfer[] = [];

  constructor(private readonly root: HTMLElement) {
    for (const item of root.querySelectorAll<HTMLElement>("[data-upload]")) this.remember(item);
    const drop = root.querySelector<HTMLElement>("[data-drop]");
    const input = root.querySelector<HTMLInputElement>("[data-files]");
    input?.addEventListener("change", () => {
      this.add([...(input.files ?? [])]);
      input.value = "";
    });
    for (const name of ["dragenter", "dragover"]) {
      document.addEventListener(name, (event) => {
        event.preventDefault();
        drop?.classList.add("is-over");
      });
    }
    document.addEventListener("dragleave", (event) => {
      if ((event as DragEvent).relatedTarget === null) drop?.classList.remove("is-over");
    });
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      drop?.classList.remove("is-over");
      this.add([...((event as DragEvent).dataTransfer?.files ?? [])]);
    });
    window.addEventListener("beforeunload", (event) => {
      if (this.transfers.some((t) => t.state === "sending")) event.preventDefault();
    });
  }

  private remember(item: HTMLElement): void {
    const held: Remembered = {
      url: item.dataset.upload ?? "",
      fingerprint: item.dataset.fingerprint ?? "",
      name: item.dataset.name ?? "",
      size: Number(item.dataset.size),
      offset: Number(item.dataset.offset),
    };
    this.remembered.push(held);
    const row = new TransferRow(item, held.name, held.size);
    row.show({ state: "asleep", sent: held.offset, message: "Choose or drop this file again to go on." });
    row.onCancel = () => {
      void Transfer.forget(held.url).then(() => item.remove());
      this.remembered.splice(this.remembered.indexOf(held), 1);
    };
    item.dataset.waiting = held.fingerprint;
  }

  private add(files: File[]): void {
    if (files.length === 0) return;
    this.batch = [];
    for (const file of files) {
      const transfer = new Transfer(file, this.root.dataset.url ?? "", this.root.dataset.project ?? "");
      const known = this.remembered.findIndex((r) => r.fingerprint === transfer.fingerprint);
      let item = document.createElement("li");
      item.className = "upl";
      const held = known >= 0 ? this.remembered.splice(known, 1)[0] : undefined;
      if (held) {
        transfer.resumeFrom(held);
        const waiting = this.root.querySelector<HTMLLIElement>(`[data-upload="${CSS.escape(held.url)}"]`);
        if (waiting) item = waiting;
      }
      if (!item.isConnected) this.root.querySelector("[data-list]")?.append(item);
      const row = new TransferRow(item, file.name, file.size);
      row.onPause = () => transfer.pause();
      row.onResume = () => {
        transfer.wait();
        this.next();
      };
      row.onCancel = () => {
        void transfer.cancel();
        item.remove();
        this.next();
      };
      transfer.onChange = (view) => this.changed(transfer, view);
      this.rows.set(transfer, row);
      this.transfers.push(transfer);
      this.batch.push(transfer);
      row.show(transfer.view);
    }
    this.say(`${files.length} file${files.length === 1 ? "" : "s"} added.`);
    this.next();
  }

  private changed(transfer: Transfer, view: View): void {
    this.rows.get(transfer)?.show(view);
    if (view.state === "sending") return;
    if (view.state === "done") {
      this.say(`${transfer.file.name} is uploaded and is being read.`);
      this.refresh();
      // one file: go where it is checked
      if (this.batch.length === 1 && this.batch[0] === transfer && (transfer.scene || transfer.vector)) {
        const { sceneUrl = "/imagery/", vectorUrl = "/imagery/vectors/" } = this.root.dataset;
        window.location.assign(transfer.vector ? `${vectorUrl}${transfer.vector}/` : `${sceneUrl}${transfer.scene}/`);
        return;
      }
    } else if (view.state === "failed") {
      this.say(`${transfer.file.name}: ${view.message}`);
    }
    this.next();
  }

  private next(): void {
    const busy = this.transfers.filter((t) => t.state === "sending").length;
    for (const transfer of this.transfers.filter((t) => t.state === "waiting").slice(0, AT_ONCE - busy)) void transfer.run();
  }

  private refresh(): void {
    for (const list of document.querySelectorAll<HTMLElement>(this.root.dataset.refresh ?? "#scenes")) {
      const url = list.dataset.refreshUrl;
      if (url) void window.htmx.ajax("get", url, { target: list, swap: "morph:outerHTML" });
    }
  }

  private say(text: string): void {
    const region = this.root.querySelector("[data-say]");
    if (region) region.textContent = text;
  }
}

function start(): void {
  for (const root of document.querySelectorAll<HTMLElement>("[data-island=upload]")) new UploadIsland(root);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
