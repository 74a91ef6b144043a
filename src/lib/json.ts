/** Text from outside as JSON. */

/** Parsed JSON, or undefined for text that is none: what that means is the caller's to say. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
