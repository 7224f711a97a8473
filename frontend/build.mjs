// Builds the bundles into ../static/build with fixed names and writes ../static/build/digests.json:
// SHA-256 of every source and of every bundle. tests/unit/frontend compares them without Node;
// where node_modules exists it builds into a folder of its own and compares the bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(here, process.argv[2] ?? "../static/build");
const ENTRIES = ["app", "map", "upload"];
const SOURCES = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs", "src", "css", "public"];

/** Every file under `root`, as paths relative to `base`, in a fixed order. */
function files(root, base) {
  if (statSync(root).isFile()) return [relative(base, root)];
  return readdirSync(root)
    .sort()
    .flatMap((name) => files(join(root, name), base));
}

const digests = (paths, base) =>
  Object.fromEntries(
    paths.map((path) => [path, createHash("sha256").update(readFileSync(join(base, path))).digest("hex")]),
  );

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const [index, entry] of ENTRIES.entries()) {
  await build({
    root: here,
    configFile: false,
    logLevel: "warn",
    base: "./",
    publicDir: index === 0 ? "public" : false,
    build: {
      outDir: out,
      emptyOutDir: false,
      target: "es2022",
      cssTarget: ["chrome111", "firefox115", "safari16.4"],
      assetsInlineLimit: 0,
      cssCodeSplit: false,
      sourcemap: false,
      rollupOptions: {
        input: join(here, "src", `${entry}.ts`),
        // Leaflet comes from django-leaflet as a classic script: the island uses the global L
        external: ["leaflet"],
        output: {
          format: "iife",
          globals: { leaflet: "L" },
          entryFileNames: `${entry}.js`,
          assetFileNames: (asset) =>
            (asset.names?.[0] ?? "").endsWith(".css") ? `${entry}.css` : "fonts/[name][extname]",
        },
      },
    },
  });
}

const bundles = files(out, out);
writeFileSync(
  join(out, "digests.json"),
  `${JSON.stringify(
    { sources: digests(SOURCES.flatMap((path) => files(join(here, path), here)), here), bundles: digests(bundles, out) },
    null,
    1,
  )}\n`,
);
console.log(`${bundles.length} files in ${relative(process.cwd(), out) || "."}`);
