import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { dvo } from '../support/command.ts';
import { until } from '../support/until.ts';

describe('dvo emulator', () => {
  it('takes no port that is none, or that is in use', async () => {
    await using taken = createServer().listen(0, '127.0.0.1');
    await until(() => taken.listening);
    const address = taken.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    for (const [flags, words] of [
      [['--port', 'seven'], '--port is "seven"; it must be a number from 0 to 65535'],
      [['--control-port', '70000'], '--control-port is "70000"'],
      [['--port', port], `address already in use 127.0.0.1:${port}; choose another --port`],
      [['--control-port', port], `127.0.0.1:${port}`],
    ] as const) {
      const { code, out, err } = await dvo({ PATH: process.env['PATH'] }, ['emulator', ...flags]);
      expect([code, out, err]).toEqual([2, '', expect.stringContaining(words)]);
      expect(err.trim().split('\n')).toHaveLength(1);
    }
  });
});
