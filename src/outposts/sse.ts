/** Server-Sent Events out of arbitrary chunks, by eventsource-parser, with a bound on what is buffered. */
import { createParser } from 'eventsource-parser';
import { ApiError } from './outposts.ts';

export type SseItem = { readonly kind: 'event'; readonly data: string } | { readonly kind: 'comment' };

/** One event holds one queue entry. */
const LARGEST_EVENT_CHARACTERS = 4 * 1024 * 1024;

/** @throws ApiError when an event is larger than the bound; what the chunks throw */
export async function* readSse(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseItem> {
  const decoder = new TextDecoder();
  const ready: SseItem[] = [];
  let pending = 0;
  const parser = createParser({
    onEvent: (event) => ready.push({ kind: 'event', data: event.data }),
    onComment: () => ready.push({ kind: 'comment' }),
  });
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    pending += text.length;
    parser.feed(text);
    if (ready.length > 0) pending = 0;
    if (pending > LARGEST_EVENT_CHARACTERS) throw new ApiError('watch: an event is too large');
    yield* ready.splice(0);
  }
}
