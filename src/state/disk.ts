/**
 * The file system as state/ needs it: whole files, replaced or not at all. A port, so that the simulation can lose
 * power. `node-disk.ts` is the real one.
 */
export interface Disk {
  /** Undefined when there is no such file. @throws DvoError `state` */
  read(path: string): Promise<Uint8Array | undefined>;
  /**
   * Durably replaces the file: when it returns, a power cut shows the new content; until then, the old one; never a
   * part. @throws DvoError `state` (ENOSPC and the like), with the old file whole
   */
  replace(path: string, content: Uint8Array): Promise<void>;
  /** Durably renames a file that must be kept but not used. @throws DvoError `state` */
  setAside(path: string, to: string): Promise<void>;
}
