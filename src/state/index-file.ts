/** Reading the index file: whole, in part, or not at all. Nothing is ever overwritten that could not be read. */
import type { Clock } from '../lib/clock.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { FailureHistory, SessionRecord } from '../session/session.ts';
import type { Disk } from './disk.ts';
import { FAILURES, INDEX_FILE, RECORD } from './record-schema.ts';
import { Table } from './table.ts';

/** read: as it was · new: there was none · rebuilding: damaged, set aside; queue, tags and markers fill it again. */
export type IndexOrigin = 'read' | 'new' | 'rebuilding';

export interface IndexOwner {
  readonly outpostId: string;
  readonly acceptorId: string;
}

export interface ReadIndex {
  readonly origin: IndexOrigin;
  readonly sessions: Table<SessionRecord>;
  readonly failures: Table<FailureHistory>;
}

export interface ReadOptions extends IndexOwner {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Logger;
  readonly path: string;
}

const VERSION = 1;

/** @throws DvoError `state` when the file is another daemon's or another version's, or the disk fails */
export async function readIndex(options: ReadOptions): Promise<ReadIndex> {
  const sessions = new Table<SessionRecord>();
  const failures = new Table<FailureHistory>();
  const bytes = await options.disk.read(options.path);
  if (bytes === undefined) return { origin: 'new', sessions, failures };
  const document = parseDocument(bytes);
  if (document.kind === 'damaged') {
    await setAside(options, document.why);
    return { origin: 'rebuilding', sessions, failures };
  }
  refuseForeign(options, document.file);
  const bad =
    fill(sessions, document.file.sessions, (row) => RECORD.safeParse(row)) +
    fill(failures, document.file.failures, (row) => FAILURES.safeParse(row));
  if (bad === 0) return { origin: 'read', sessions, failures };
  await setAside(options, `${bad} of its records cannot be read`);
  return { origin: 'rebuilding', sessions, failures };
}

/** The records that can be read, for a look from outside while a daemon may run: nothing is set aside or written. */
export async function peekIndex(
  path: string,
  disk: Disk,
): Promise<(IndexOwner & { readonly sessions: Table<SessionRecord> }) | undefined> {
  const bytes = await disk.read(path);
  if (bytes === undefined) return undefined;
  const document = parseDocument(bytes);
  if (document.kind === 'damaged') return undefined;
  const sessions = new Table<SessionRecord>();
  fill(sessions, document.file.sessions, (row) => RECORD.safeParse(row));
  const { outpostId, acceptorId } = document.file;
  return { outpostId, acceptorId, sessions };
}

type Document =
  | { readonly kind: 'file'; readonly file: ReturnType<typeof INDEX_FILE.parse> }
  | { readonly kind: 'damaged'; readonly why: string };

function parseDocument(bytes: Uint8Array): Document {
  try {
    const json: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    const file = INDEX_FILE.safeParse(json);
    if (file.success) return { kind: 'file', file: file.data };
    return { kind: 'damaged', why: 'it has the wrong shape' };
  } catch (error) {
    return { kind: 'damaged', why: bytes.byteLength === 0 ? 'it is empty' : describeError(error) };
  }
}

function refuseForeign(options: ReadOptions, file: IndexOwner & { readonly version: number }): void {
  if (file.version !== VERSION) {
    throw new DvoError(
      'state',
      `${options.path} has version ${file.version}; this dvo reads version ${VERSION}. Run the dvo that wrote it, or use another STATE_DIR`,
    );
  }
  for (const [key, variable] of [
    ['outpostId', 'OUTPOST_ID'],
    ['acceptorId', 'ACCEPTOR_ID'],
  ] as const) {
    if (file[key] === options[key]) continue;
    throw new DvoError(
      'state',
      `${options.path} belongs to ${variable}=${file[key]}, but ${variable} is ${options[key]}. Use another STATE_DIR, or set ${variable} back`,
    );
  }
}

/** How many rows could not be read. */
function fill<Row extends object>(
  table: Table<Row>,
  rows: Readonly<Record<string, unknown>>,
  parse: (row: unknown) => { readonly success: true; readonly data: Row } | { readonly success: false },
): number {
  let bad = 0;
  for (const [name, row] of Object.entries(rows)) {
    const parsed = parse(row);
    if (parsed.success) table.put(name, parsed.data);
    else bad += 1;
  }
  return bad;
}

async function setAside(options: ReadOptions, why: string): Promise<void> {
  const { disk, clock, log, path } = options;
  const stamp = new Date(clock.now()).toISOString().replaceAll(':', '-');
  let to = path.replace(/\.json$/, `.damaged-${stamp}.json`);
  for (let copy = 2; (await disk.read(to)) !== undefined; copy += 1) {
    to = path.replace(/\.json$/, `.damaged-${stamp}-${copy}.json`);
  }
  await disk.setAside(path, to);
  log.error('index damaged: set aside, rebuilding from queue, tags and markers', { why, keptAs: to });
}
