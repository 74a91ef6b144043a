/**
 * Which processes belong to a sandbox, and ending them. Children leave process groups, sessions and parents behind, so
 * they are recognised by what they cannot shed: HOME, TMPDIR or working directory inside the sandbox's own folder.
 */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { systemCode } from '../../lib/errors.ts';

export interface ProcessRef {
  readonly pid: number;
  /** Field 22 of /proc/<pid>/stat: with the pid it names one process for ever. */
  readonly startTime: string;
}

/** All live processes of the folder; zombies are not alive. */
export async function processesOf(folder: string): Promise<readonly ProcessRef[]> {
  const found: ProcessRef[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const pid = Number(name);
    if (pid === process.pid || !(await belongs(pid, folder))) continue;
    const startTime = await startTimeOf(pid);
    if (startTime !== undefined) found.push({ pid, startTime });
  }
  return found;
}

/** SIGKILL to those of `refs` that are still the same processes. */
export async function kill(refs: readonly ProcessRef[]): Promise<void> {
  for (const { pid, startTime } of refs) {
    // Looked up right before the signal: a pid may have gone to a stranger since.
    if ((await startTimeOf(pid)) !== startTime) continue;
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if (systemCode(error) !== 'ESRCH') throw error;
    }
  }
}

/** Undefined: no such process, or a zombie. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  const stat = await readProc(pid, 'stat');
  // The command name, in parentheses, may hold anything; the fields are counted from its end.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

async function belongs(pid: number, folder: string): Promise<boolean> {
  const environ = await readProc(pid, 'environ');
  const inside = `${folder}/`;
  const variables = (environ ?? '').split('\0');
  if (variables.some((one) => one.startsWith(`HOME=${inside}`) || one.startsWith(`TMPDIR=${inside}`)))
    return true;
  return `${(await workingDirectory(pid)) ?? ''}/`.startsWith(inside);
}

async function readProc(pid: number, file: 'stat' | 'environ'): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${pid}/${file}`, 'latin1');
  } catch (error) {
    return unlessHidden(error);
  }
}

async function workingDirectory(pid: number): Promise<string | undefined> {
  try {
    return await readlink(`/proc/${pid}/cwd`);
  } catch (error) {
    return unlessHidden(error);
  }
}

/** It ended meanwhile, or is another user's and so none of ours. */
function unlessHidden(error: unknown): undefined {
  const code = systemCode(error);
  if (code === 'ENOENT' || code === 'ESRCH' || code === 'EACCES' || code === 'EPERM') return undefined;
  throw error;
}
