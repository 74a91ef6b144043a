#!/usr/bin/env -S node --
/**
 * The bin: the only place that reads process.env, and the only one that ends the process. The two dashes above keep Node
 * from taking `--env-file` for itself: it looks for its own flags even behind the script's name.
 */
import { dvo } from './cli/program.ts';
import { EXIT, type ExitCode } from './cli/terminal.ts';
import { describeError, systemCode } from './lib/errors.ts';

const { env, stdout, stderr, argv } = process;
const interactive = stdout.isTTY;
let unheard: ExitCode | undefined;
for (const stream of [stdout, stderr]) {
  stream.on('error', (error) => {
    // A command that listens too goes on by itself; and a second failure says nothing new.
    if (unheard !== undefined || stream.listenerCount('error') > 1) return;
    unheard = systemCode(error) === 'EPIPE' ? EXIT.brokenPipe : EXIT.failed;
    if (unheard === EXIT.failed) stderr.write(`dvo: the output cannot be written: ${describeError(error)}\n`);
    // What is tidied up after a SIGTERM is tidied up now too.
    if (process.listenerCount('SIGTERM') === 0) process.exit(unheard);
    process.kill(process.pid, 'SIGTERM');
  });
}
const code = await dvo(argv.slice(2), {
  env,
  out: (text) => void stdout.write(text),
  err: (text) => void stderr.write(text),
  interactive,
  color: interactive && (env['NO_COLOR'] ?? '') === '',
  streams: process,
});
// The news of a write that failed come a moment later.
await new Promise((resolve) => setImmediate(resolve));
process.exitCode = unheard ?? code;
// Whatever still holds the process open is not worth waiting for: all that must be kept is on disk.
process.exit();
