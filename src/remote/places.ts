/** Where things lie in a sandbox. What must survive a suspension lies in the volume. */
import type { SandboxPaths } from '../sandboxes/provider.ts';

export interface Places {
  /** Parent of `repos/`, and the remote's working directory. */
  readonly workdir: string;
  readonly home: string;
  /** DEVIN_REMOTE_STATE_DIR. One session per volume, so one is enough. */
  readonly state: string;
}

export function placesIn(
  paths: SandboxPaths,
  configured: { readonly workdir?: string; readonly home?: string },
): Places {
  return {
    workdir: configured.workdir ?? paths.volume,
    home: configured.home ?? `${paths.volume}/.dvo/home`,
    state: stateIn(paths),
  };
}

/** Also what tells a session's processes from all others, by their environment. */
export function stateIn(paths: SandboxPaths): string {
  return `${paths.volume}/.dvo/remote-state`;
}
