/**
 * Lets CodeMirror's styles pass the content security policy. CodeMirror writes a `<style>` element, which the policy
 * rejects unless the page has a nonce, and the pages of the gateway are static files. Adopted style sheets are allowed.
 */

import { StyleModule } from "style-mod";

let mounted: readonly StyleModule[] = [];
let sheet: CSSStyleSheet | null = null;

/** Must be called before the first editor is created. */
export function adoptEditorStyles(): void {
  StyleModule.mount = (_root, modules) => {
    const latest = [modules].flat();
    if (latest.every((module) => mounted.includes(module))) return;
    // In the order of the editor: its theme comes after the base theme of an extension that was added later.
    mounted = [...mounted.filter((module) => !latest.includes(module)), ...latest];
    if (sheet === null) {
      sheet = new CSSStyleSheet();
      document.adoptedStyleSheets.push(sheet);
    }
    sheet.replaceSync(mounted.map((module) => module.getRules()).join("\n"));
  };
}
