import "./app.css";
import "uplot/dist/uPlot.min.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { applyTheme } from "./lib/session.svelte.ts";

applyTheme();
mount(App, { target: document.getElementById("app")! });
