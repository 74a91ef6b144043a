/** Opens a page in the person's browser, if there is one. The URL is printed in any case, so failing is no failure. */
import { spawn } from 'node:child_process';

export function openBrowser(url: string): void {
  const [command, ...args] = opener(url);
  const child = spawn(command, args, { stdio: 'ignore', detached: true });
  child.once('error', () => undefined);
  child.unref();
}

function opener(url: string): readonly [string, ...string[]] {
  if (process.platform === 'darwin') return ['open', url];
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler', url];
  return ['xdg-open', url];
}
