// A part's own styles: a sheet that is there before its first page is shown, and fetched once.

/** @type {Map<string, Promise<void>>} */
const sheets = new Map();

/** @param {string} href */
export function style(href) {
  const known = sheets.get(href);
  if (known) return known;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = href;
  const loaded = new Promise((/** @type {(done: void) => void} */ resolve) => {
    link.addEventListener('load', () => resolve());
    // A page without its looks is better than none.
    link.addEventListener('error', () => resolve());
  });
  document.head.append(link);
  sheets.set(href, loaded);
  return loaded;
}
