import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { acceptorTag, outpostTag, sandboxName } from '../../src/sandboxes/names.ts';

/** CoreWeave's rule for a tag. */
const TAG = /^[A-Za-z0-9._-]{0,58}[A-Za-z0-9]$/;

describe('names', () => {
  it('stay what they are: a change strands live sessions', () => {
    expect(sandboxName('outpost_env-1', 'devin-0123456789abcdef')).toBe(GOLDEN.plain);
    expect(sandboxName('outpost_env-1', '../x')).toBe(GOLDEN.hostile);
    expect(outpostTag('outpost_env-1')).toBe(GOLDEN.outpost);
    expect(acceptorTag('me')).toBe(GOLDEN.acceptor);
  });

  it.each([
    '../x',
    '__proto__',
    'a\nb',
    'x'.repeat(4_096),
    '雪',
    '',
    '---',
    'A.B_C',
    'a'.repeat(28) + '-'.repeat(9) + 'b',
  ])('makes a valid tag of %j', (id) => {
    expect(sandboxName('o', id)).toMatch(TAG);
  });

  it('makes valid and different tags of whatever there is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (one, two) => {
        expect(sandboxName('o', one)).toMatch(TAG);
        if (one !== two) expect(sandboxName('o', one)).not.toBe(sandboxName('o', two));
      }),
    );
  });

  it('tells long ids apart that differ only at their end', () => {
    const long = 'devin-'.padEnd(500, 'x');
    expect(sandboxName('o', `${long}a`)).not.toBe(sandboxName('o', `${long}b`));
  });
});

const GOLDEN = {
  plain: 'dvo-7d74c7be-devin-0123456789abcdef-32c4c46f9710f752',
  hostile: 'dvo-7d74c7be-x-d6b96a97d147daaa',
  outpost: 'dvo-outpost-7d74c7be',
  acceptor: 'dvo-acceptor-2744ccd10c7533bd',
};
