/** Compresses the built files and writes the list that the API embeds them by. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build, type Plugin, type Rollup } from "vite";

/** Size limits, compressed with gzip: of all files of the console together, and of a saved run without its log. */
const MAX_BYTES = 150 * 1024;
const MAX_RUN_BYTES = 20 * 1024;

/** File of a saved run, in which the API puts the log. It is no part of the console. */
const RUN = "run.html";

const MEDIA_TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  txt: "text/plain; charset=utf-8",
  svg: "image/svg+xml",
};

export function embedded(): Plugin {
  let folder = "";
  return {
    name: "embedded",
    apply: "build",
    configResolved: (config) => {
      folder = resolve(config.root, config.build.outDir);
    },
    generateBundle(_, bundle) {
      const modules = Object.values(bundle).flatMap((it) => (it.type === "chunk" ? it.moduleIds : []));
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: licenses(modules) });
    },
    closeBundle: async () => {
      const run = await savedRun();
      const size = gzipSync(run, { level: 9 }).length;
      if (size > MAX_RUN_BYTES) throw new Error(`a saved run may have at most ${MAX_RUN_BYTES / 1024} KiB compressed`);
      writeFileSync(join(folder, RUN), run);
      const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
      const assets = files.filter((it) => it !== RUN && it.split(".").pop()! in MEDIA_TYPES);
      const bytes = assets.map((it) => gzipSync(readFileSync(join(folder, it)), { level: 9 }).length);
      const total = bytes.reduce((sum, it) => sum + it, 0);
      console.log(`${assets.length} files, ${(total / 1024).toFixed(1)} KiB compressed with gzip`);
      if (total > MAX_BYTES) throw new Error(`the console may have at most ${MAX_BYTES / 1024} KiB compressed`);
      const list = assets.map((it) => entry(folder, it)).join("");
      writeFileSync(join(folder, "assets.rs"), `// Written by \`npm run build\`.\n&[\n${list}]\n`);
    },
  };
}

/** Escapes all other letters, which are in strings alone: a terminal escapes hidden ones, and the hash would be another. */
const inAscii = (script: string): string =>
  script.replace(/[^\n\t -~]/g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Builds the page of a saved run: one file without a run. */
async function savedRun(): Promise<string> {
  const lib = { entry: "src/run/main.ts", formats: ["iife" as const], name: "run" };
  const options = { write: false, target: "es2024", lib, reportCompressedSize: false };
  const built = (await build({ configFile: false, logLevel: "error", build: options })) as Rollup.RollupOutput[];
  const script = inAscii(built[0].output[0].code.replaceAll("</script", "<\\/script"));
  const hash = createHash("sha256").update(script).digest("base64");
  const style = readFileSync("src/run/page.css", "utf8");
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'">
<title>turnfold</title>
<style>${style}</style>
<body>
<script type="application/json" id="run">__RUN__</script>
<script>${script}</script>
</html>
`;
}

/** The licences of all packages that are part of the bundle, which these licences require to be handed on. */
function licenses(modules: string[]): string {
  const folders = modules.flatMap((it) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(it)?.[0] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it));
    if (!file) throw new Error(`${name} has no licence file`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return texts.join("\n----\n\n");
}

function entry(folder: string, file: string): string {
  const content = readFileSync(join(folder, file));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(join(folder, `${file}.br`), brotliCompressSync(content, { params }));
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 32);
  return `    Asset {
        path: "${file === "index.html" ? "/" : `/${file}`}",
        media_type: "${MEDIA_TYPES[file.split(".").pop()!]}",
        is_immutable: ${file.startsWith("assets/")},
        hash: "${hash}",
        content: include_bytes!("${file}"),
        brotli: include_bytes!("${file}.br"),
    },
`;
}
