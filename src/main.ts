#!/usr/bin/env -S node --
/**
 * The bin: the only place that reads process.env, and the only one that ends the process. The two dashes above keep Node
 * from taking `--env-file` for itself: it looks for its own flags even behind the script's name.
 */
import { dvo } from './cli/program.ts';

const { env, stdout, stderr, argv } = process;
const interactive = stdout.isTTY;
process.exitCode = await dvo(argv.slice(2), {
  env,
  out: (text) => void stdout.write(text),
  err: (text) => void stderr.write(text),
  interactive,
  color: interactive && (env['NO_COLOR'] ?? '') === '',
  streams: process,
});
// Whatever still holds the process open is not worth waiting for: all that must be kept is on disk.
process.exit();
