// The bank's page, in a tab of its own: this page stays and follows the payment. What the gateway sends back ends
// at a plain page of the server's, from which no way leads here; so that tab is closed when it has done its part.

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
  tab?.close();
}
