/** The entry point of the console. */

import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import "./style/tokens.css";
import "./style/base.css";
import "./style/layout.css";
import "./style/controls.css";
import "./style/data.css";
import "./style/code.css";
import "./style/charts.css";
import { loadCatalogue, preferredLanguage } from "./text/language.ts";

const language = preferredLanguage();
const root = document.getElementById("root");
if (root === null) throw new Error("The page has no element for the console.");
createRoot(root).render(<App language={language} texts={await loadCatalogue(language)} />);
