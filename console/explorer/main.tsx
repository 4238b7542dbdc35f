/** The entry point of the API explorer. */

import "./no-eval.ts";
import { createRoot } from "react-dom/client";
import "../style/tokens.css";
import "../style/base.css";
import "../style/layout.css";
import "../style/controls.css";
import "../style/data.css";
import "../style/code.css";
import "./explorer.css";
import { loadExplorerTexts, preferredLanguage } from "../text/language.ts";
import { TextProvider } from "../text/text.tsx";
import { Explorer } from "./explorer.tsx";

const language = preferredLanguage();
const root = document.getElementById("root");
if (root === null) throw new Error("The page has no place for the explorer.");
createRoot(root).render(
  <TextProvider language={language} texts={await loadExplorerTexts(language)} load={loadExplorerTexts}>
    <Explorer />
  </TextProvider>,
);
