import "./tokens.css";
import "./app.css";
import "uplot/dist/uPlot.min.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { applyTheme } from "./lib/app.svelte.ts";
import { arrive } from "./lib/issuer.ts";

applyTheme();
arrive();
mount(App, { target: document.getElementById("app")! });
