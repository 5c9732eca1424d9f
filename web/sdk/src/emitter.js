// Events with types: what `EventTarget` does, with the names and details of each event known.

/**
 * @template {Record<string, any>} Events
 */
export class Emitter extends EventTarget {
  /**
   * @template {keyof Events & string} Name
   * @param {Name} name
   * @param {(detail: Events[Name]) => void} listener
   * @returns {() => void} Stops it.
   */
  on(name, listener) {
    const heard = (/** @type {Event} */ event) => listener(/** @type {CustomEvent} */ (event).detail);
    this.addEventListener(name, heard);
    return () => this.removeEventListener(name, heard);
  }

  /**
   * @template {keyof Events & string} Name
   * @param {Name} name
   * @param {Events[Name]} detail
   */
  emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
