/** Whether a URL can only mean this machine. */

export function isLoopbackUrl(url: string): boolean {
  if (!URL.canParse(url)) return false;
  return isLoopbackHost(new URL(url).hostname);
}

/** `host` as in a URL: names in lower case, IPv4 in dotted form, IPv6 in brackets or without. */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
