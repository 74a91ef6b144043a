/** Reading what a request carries, within bounds. */
import type { IncomingMessage } from 'node:http';

/** A token in a form, or a session id and a word, with room. */
const MOST_BYTES = 8_192;

/** As UTF-8. Undefined: longer than any that is meant for us. */
export async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk);
    size += bytes.byteLength;
    if (size > MOST_BYTES) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString('utf8');
}
