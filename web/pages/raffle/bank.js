// The bank's page, in a tab of its own: this page stays and follows the payment. What the gateway sends back ends
// at a plain page of the server's, from which no way leads here; so that tab is closed when it has done its part.

/** How long the bank's tab may take to come back, and how often that is looked at. */
const BACK_MS = 30_000;
const LOOK_MS = 200;

/** @type {Map<string, Window>} */
const tabs = new Map();

/** @param {string} payment @param {string} url */
export function openBank(payment, url) {
  const tab = window.open('', '_blank');
  if (!tab) {
    // Not allowed to: then here. The way back is the browser's.
    location.assign(url);
    return;
  }
  tabs.set(payment, tab);
  // The bank's page need not know where it was opened.
  tab.opener = null;
  tab.location.href = url;
}

/** It is not needed any more. @param {string} payment */
export function closeBank(payment) {
  const tab = tabs.get(payment);
  tabs.delete(payment);
  if (tab) closeHere(tab, Date.now() + BACK_MS);
}

/** A browser lets nobody close another's page: what has become of a payment may be known before its tab is back. @param {Window} tab @param {number} until */
function closeHere(tab, until) {
  try {
    // Of another's page not even this is told.
    void tab.location.href;
  } catch {
    if (Date.now() < until) setTimeout(() => closeHere(tab, until), LOOK_MS);
    return;
  }
  tab.close();
}
