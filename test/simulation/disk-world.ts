/** One daemon's STATE_DIR: whole files that survive its death, unless the disk itself is lost. */
import { DvoError } from '../../src/lib/errors.ts';
import type { Disk } from '../../src/state/disk.ts';
import type { Draw } from './draw.ts';
import type { Line } from './line.ts';

export class DiskWorld {
  readonly files = new Map<string, Uint8Array>();
  /** Sees what is about to be written. */
  onWrite: ((path: string, text: string) => void) | undefined;

  lose(): void {
    this.files.clear();
  }

  /** A disk that had not written what it said it had: of each file there is a beginning. */
  tear(draw: Draw): void {
    for (const [path, content] of this.files) {
      this.files.set(path, content.subarray(0, draw.between(0, content.length)));
    }
  }

  /** The disk through one process's eyes. What is being written when it dies is on disk or not, never in part. */
  port(line: Line): Disk {
    const call = { timeoutMs: 600_000, signal: new AbortController().signal };
    const failure = (): DvoError => new DvoError('state', 'EIO');
    const ask = <T>(operation: string, path: string, effect: () => T): Promise<T> =>
      line.call(call, {
        operation: `disk.${operation}`,
        subject: path,
        latencyMs: [0, 5],
        reach: 'local',
        effect,
        failure,
      });
    return {
      read: (path) => ask('read', path, () => this.files.get(path)),
      replace: (path, content) =>
        ask('replace', path, () => {
          this.onWrite?.(path, new TextDecoder().decode(content));
          this.files.set(path, content);
        }),
      setAside: (path, to) =>
        ask('setAside', path, () => {
          const content = this.files.get(path);
          if (content === undefined) throw new DvoError('state', `ENOENT: ${path}`);
          this.files.delete(path);
          this.files.set(to, content);
        }),
    };
  }
}
