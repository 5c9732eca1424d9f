// Where a field of a document stands in its text.

/** Where the text says what the server minds: `phases[0].ttl_ms`. @param {string} text @param {string} field @returns {[number, number] | undefined} */
export function locate(text, field) {
  const names = field.split(/[.[\]]+/).filter(Boolean);
  let from = 0;
  for (const name of names) {
    if (/^\d+$/.test(name)) {
      for (let n = 0; n <= Number(name); n += 1) {
        from = text.indexOf('{', from + (n > 0 ? 1 : 0));
        if (from < 0) return undefined;
      }
      continue;
    }
    const at = text.indexOf(`"${name}"`, from);
    if (at < 0) return undefined;
    from = at;
  }
  const end = text.indexOf('\n', from);
  return [from, end < 0 ? text.length : end];
}
