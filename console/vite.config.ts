import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { embedded } from "./scripts/embedded.ts";

/** Address of the API that the development server forwards to. */
const api = process.env.TURNFOLD_URL ?? "http://127.0.0.1:2026";

export default defineConfig({
  plugins: [svelte(), embedded()],
  build: {
    target: "es2024",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: false } },
  },
  server: {
    proxy: Object.fromEntries(
      ["/v1", "/metrics", "/livez", "/readyz", "/docs", "/openapi.json"].map((it) => [it, api]),
    ),
  },
});
