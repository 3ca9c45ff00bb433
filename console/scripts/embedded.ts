/** Compresses the built files and writes the list that the API embeds them by. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** Size limit of all files together, compressed with gzip. */
const MAX_BYTES = 120 * 1024;

const MEDIA_TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
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
    closeBundle: () => {
      const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
      const assets = files.filter((it) => it.split(".").pop()! in MEDIA_TYPES);
      const bytes = assets.map((it) => gzipSync(readFileSync(join(folder, it)), { level: 9 }).length);
      const total = bytes.reduce((sum, it) => sum + it, 0);
      console.log(`${assets.length} files, ${(total / 1024).toFixed(1)} KiB compressed with gzip`);
      if (total > MAX_BYTES) throw new Error(`the console may have at most ${MAX_BYTES / 1024} KiB compressed`);
      const list = assets.map((it) => entry(folder, it)).join("");
      writeFileSync(join(folder, "assets.rs"), `// Written by \`npm run build\`.\n&[\n${list}]\n`);
    },
  };
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
