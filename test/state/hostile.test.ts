import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { DvoError } from '../../src/lib/errors.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { nodeDisk } from '../../src/state/node-disk.ts';
import { openSessionIndex } from '../../src/state/session-index.ts';
import { record } from '../session/view.ts';
import { damaged } from '../support/hostile.ts';

const OWNER = { outpostId: 'outpost-1', acceptorId: 'me' };
const folders: string[] = [];

afterEach(() => {
  for (const one of folders.splice(0)) rmSync(one, { recursive: true, force: true });
});

const NAMES = ['dvo-a', 'dvo-b', 'dvo-c'];
const SESSIONS = Object.fromEntries(NAMES.map((name) => [name, record('serving', { sessionId: name })]));
const WHOLE = { version: 1, ...OWNER, sessions: SESSIONS, failures: {} };

/**
 * Opens an index whose file holds these bytes, and saves it with one change. Then every byte must still be somewhere,
 * unless the file was understood to the last record.
 */
async function survives(bytes: Uint8Array): Promise<void> {
  const stateDir = mkdtempSync(join(tmpdir(), 'dvo-hostile-'));
  folders.push(stateDir);
  const path = join(stateDir, 'sandbox_index.json');
  await writeFile(path, bytes);
  const opening = openSessionIndex({
    ...OWNER,
    disk: nodeDisk,
    stateDir,
    clock: systemClock,
    log: silentLogger,
  });
  const opened = await opening.catch((error: unknown) => error);
  if (opened instanceof DvoError) {
    // Another daemon's, or another version's: left as it is.
    expect(opened.code).toBe('state');
    expect(new Uint8Array(await readFile(path))).toEqual(new Uint8Array(bytes));
    return;
  }
  const { index, origin } = await opening;
  const found = new Map(index.entries());
  index.put('dvo-new', record('claimed'));
  await index.commit();
  if (origin === 'rebuilding') {
    const [kept = ''] = (await readdir(stateDir)).filter((name) => name.includes('damaged'));
    expect(new Uint8Array(await readFile(join(stateDir, kept)))).toEqual(new Uint8Array(bytes));
  } else {
    expect(origin).toBe('read');
    const given = JSON.parse(Buffer.from(bytes).toString()) as typeof WHOLE;
    expect([...found.keys()].toSorted()).toEqual(Object.keys(given.sessions).toSorted());
  }
}

describe('T2: an index file', () => {
  it('with any of its bytes changed, is read to the last record or set aside whole', async () => {
    await fc.assert(fc.asyncProperty(damaged(fc.constant(JSON.stringify(WHOLE))), survives), {
      numRuns: 100,
    });
  });

  it('of any JSON, is read to the last record or set aside whole', async () => {
    const odd = fc.oneof(fc.constantFrom(...Object.values(SESSIONS)), fc.jsonValue());
    const rows = fc.dictionary(
      fc.oneof(fc.constantFrom(...NAMES, '__proto__', 'constructor'), fc.string()),
      odd,
    );
    const either = (right: unknown) => fc.oneof({ weight: 8, arbitrary: fc.constant(right) }, fc.jsonValue());
    const file = fc.record(
      {
        version: either(1),
        outpostId: either(OWNER.outpostId),
        acceptorId: either(OWNER.acceptorId),
        sessions: fc.oneof({ weight: 8, arbitrary: rows }, fc.jsonValue()),
        failures: fc.oneof({ weight: 8, arbitrary: rows }, fc.jsonValue()),
      },
      { requiredKeys: ['sessions'] },
    );
    await fc.assert(
      fc.asyncProperty(file, async (one) => await survives(Buffer.from(JSON.stringify(one)))),
      { numRuns: 100 },
    );
    // What the generator's objects cannot hold, and a file can.
    const sly = JSON.stringify({ ...WHOLE, sessions: { x: 1 } }).replace(
      '"x":1',
      `"__proto__":${JSON.stringify(SESSIONS['dvo-a'])}`,
    );
    await survives(Buffer.from(sly));
  });
});
