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
  let overflow = false;
  const parser = createParser({
    // Counted by the parser: a comment between the lines of an event is an item, and frees nothing.
    maxBufferSize: LARGEST_EVENT_CHARACTERS,
    onEvent: (event) => ready.push({ kind: 'event', data: event.data }),
    // That the stream is alive is said once: a flood of comments must not keep the loop from everything else.
    onComment: () => {
      if (ready.at(-1)?.kind !== 'comment') ready.push({ kind: 'comment' });
    },
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') overflow = true;
    },
  });
  for await (const chunk of chunks) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* ready.splice(0);
    if (overflow) throw new ApiError('watch: an event is too large');
  }
}
