// A class has a colour of its own, the same for everybody.

/** @param {string} name */
export function hueOf(name) {
  let sum = 11;
  for (const letter of name) sum = (sum * 33 + (letter.codePointAt(0) ?? 0)) % 360;
  return sum;
}

/** @param {HTMLElement | SVGElement} element @param {string} name */
export function paint(element, name) {
  element.style.setProperty('--hue', String(hueOf(name)));
}
