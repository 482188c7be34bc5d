/** Files that are dropped anywhere onto the app; elsewhere on the page they are none of its business. */

const APP = ".wb-app";

/**
 * @param {import("../part.mjs").Part} part  one part of the app, or an app of its own
 * @param {{onOver: (over: boolean) => void, onFile: (file: File) => void}} options
 */
export function takeDrops(part, { onOver, onFile }) {
  const isHere = (target) => target instanceof Element && (part.root.contains(target) || (target.closest(APP)?.contains(part.root) ?? false));
  const listen = (name, handler) => document.addEventListener(name, handler, { capture: true, signal: part.signal });
  const take = (event) => {
    if (!isHere(event.target) || !event.dataTransfer?.types.includes("Files")) return false;
    event.preventDefault(); // else the browser leaves the page and opens the file
    event.stopPropagation();
    return true;
  };
  for (const name of ["dragenter", "dragover"]) listen(name, (event) => onOver(take(event)));
  listen("dragleave", (event) => isHere(event.target) && !isHere(event.relatedTarget) && onOver(false));
  listen("drop", (event) => {
    onOver(false);
    if (take(event) && event.dataTransfer.files[0]) onFile(event.dataTransfer.files[0]);
  });
}
