/** Publishes builds of the stand-in remote with true checksums, and false ones on request. */
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { sendHtml, sendText } from './http.ts';
import type { Knobs } from './settings.ts';
import { standInRemote } from './stand-in-remote.ts';

const PLATFORM = 'linux_x64';

export class Distribution {
  readonly #knobs: Knobs;
  readonly #node: string;
  readonly #builds = new Map<string, Buffer>();
  #latest = '';

  constructor(knobs: Knobs, node: string) {
    this.#knobs = knobs;
    this.#node = node;
  }

  get latest(): string {
    return this.#latest;
  }

  /** Publishes a build and makes it the latest; answers its SHA. */
  publish(label: string): string {
    const sha = createHash('sha1').update(label).digest('hex').slice(0, 12);
    this.#builds.set(sha, Buffer.from(standInRemote(this.#node, label)));
    this.#latest = sha;
    return sha;
  }

  sendLatest(response: ServerResponse): void {
    sendText(response, 200, `${this.#latest}\n`);
  }

  sendBinary(sha: string, response: ServerResponse): void {
    const file = this.#builds.get(sha);
    if (file === undefined || this.#knobs.binary === 'missing') {
      sendText(response, 404, 'no such build');
      return;
    }
    if (this.#knobs.binary === 'html') {
      sendHtml(response, 200);
      return;
    }
    const truncated = this.#knobs.binary === 'truncated';
    const body = this.#knobs.binary === 'other-bytes' ? Buffer.concat([file, Buffer.from('\n')]) : file;
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    response.end(truncated ? body.subarray(0, body.byteLength / 2) : body);
  }

  sendChecksum(sha: string, response: ServerResponse): void {
    const file = this.#builds.get(sha);
    if (file === undefined || this.#knobs.checksum === 'missing') {
      sendText(response, 404, 'no such build');
      return;
    }
    if (this.#knobs.checksum === 'html') sendHtml(response, 200);
    else sendText(response, 200, this.#checksumText(sha, file));
  }

  #checksumText(sha: string, file: Buffer): string {
    const digest = createHash('sha256').update(file).digest('hex');
    switch (this.#knobs.checksum) {
      case 'empty':
        return '';
      case 'other-file':
        return `${digest}  devin-remote_${sha}_macos_arm64\n`;
      case 'crlf-upper':
        return `${digest.toUpperCase()}\r\n`;
      case 'with-name':
        return `${digest}  devin-remote_${sha}_${PLATFORM}\n`;
      case 'good':
      case 'missing':
      case 'html':
        return `${digest}\n`;
    }
  }
}
