/** The address of Devin's API, as people write it and as it is used. */

export const DEVIN_API_URL = 'https://api.devin.ai';

/** Without `/opbeta`, which the paths bring themselves, and without a final slash. */
export function bareApiUrl(url: string): string {
  return url
    .replace(/\/+$/, '')
    .replace(/\/opbeta$/, '')
    .replace(/\/+$/, '');
}
