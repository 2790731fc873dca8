// The admin token, which stays in this tab.

const NAME = "tollgate-admin-token";
const listeners = new Set();

export const token = () => sessionStorage.getItem(NAME);

export function setToken(value) {
  if (value) sessionStorage.setItem(NAME, value);
  else sessionStorage.removeItem(NAME);
}

/** Calls back when the service asks for a token, with the reason. */
export const onTokenNeeded = (listener) => listeners.add(listener);

export const needToken = (reason) => listeners.forEach((listener) => listener(reason));
