// Asks before a change.

import { byId, setText } from "./dom.js";

/** Asks, and returns whether the answer is yes. */
export function confirmed(text, yes) {
  const dialog = byId("confirm-dialog");
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), yes);
  return new Promise((resolve) => {
    let answer = false;
    byId("confirm-yes").onclick = () => {
      answer = true;
      dialog.close();
    };
    byId("confirm-no").onclick = () => dialog.close();
    dialog.addEventListener("close", () => resolve(answer), { once: true });
    dialog.showModal();
    byId("confirm-no").focus();
  });
}
