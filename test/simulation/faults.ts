/**
 * What goes wrong, drawn for each call by its name and number. A fault that is left out (to shrink a history) leaves
 * every other draw where it was.
 */
import { Draw } from './draw.ts';

/** How likely each thing is, per call or per occasion; 0 switches it off. */
export interface Intensity {
  /** One call to the outside goes wrong. */
  readonly call: number;
  /** The daemon dies at one of its calls. */
  readonly death: number;
  /** Its disk is gone when it comes back. */
  readonly diskLoss: number;
  /** A sandbox, container or remote breaks, per file that a session writes. */
  readonly breakage: number;
  /** A boot or an archive goes wrong. */
  readonly platform: number;
  /** Long troubles: refused credentials, no capacity, no answers. How many in one run. */
  readonly weather: number;
  /** The status of a running session flashes `suspended`, per file written. */
  readonly flash: number;
  /** A watch misbehaves, per event. */
  readonly watch: number;
}

export const CALM: Intensity = {
  call: 0,
  death: 0,
  diskLoss: 0,
  breakage: 0,
  platform: 0,
  weather: 0,
  flash: 0,
  watch: 0,
};

/**
 * ok · error: refused, nothing happened · error-after: it happened, and the answer is an error · hang: nothing
 * happens and no answer comes · hang-after: it happens, no answer comes · late: it happens long after the asker
 * has given up · slow: it takes long · twice: the request arrives twice
 */
export type Fate = 'ok' | 'error' | 'error-after' | 'hang' | 'hang-after' | 'late' | 'slow' | 'twice';

/**
 * network: requests that relays and queues may hold back or repeat · stream: a connection to one sandbox, which is
 * cut but neither kept nor repeated · local: a disk, which refuses or does it.
 */
export type Reach = 'network' | 'stream' | 'local';

const STREAM: readonly Fate[] = [
  'error',
  'error',
  'error-after',
  'error-after',
  'hang',
  'hang-after',
  'slow',
  'slow',
];

const BAD: Readonly<Record<Reach, readonly Fate[]>> = {
  network: [...STREAM, 'late', 'twice'],
  stream: STREAM,
  local: ['error'],
};

/** none: it lives · before: it dies before the call leaves · during: while it is on its way · after: it took effect */
export type Death = 'none' | 'before' | 'during' | 'after';

export interface CallFate {
  readonly fate: Fate;
  readonly death: Death;
  readonly draw: Draw;
}

export class Faults {
  readonly #seed: number;
  readonly #intensity: Intensity;
  readonly #allowed: ReadonlySet<string> | undefined;
  readonly #numbers = new Map<string, number>();
  /** Ids of the faults that happened, in order. */
  readonly fired: string[] = [];
  readonly counts = new Map<string, number>();
  enabled = true;

  /** @param allowed only these faults may happen; undefined: every one that is drawn */
  constructor(seed: number, intensity: Intensity, allowed?: ReadonlySet<string>) {
    this.#seed = seed;
    this.#intensity = intensity;
    this.#allowed = allowed;
  }

  get intensity(): Intensity {
    return this.#intensity;
  }

  /** The fate of one call of one daemon. `subject` tells calls of one kind apart: a session, a sandbox. */
  call(daemon: string, operation: string, subject: string, reach: Reach): CallFate {
    const id = this.#id(`${daemon}/${operation}/${subject}`);
    const draw = new Draw(this.#seed, id);
    const dies = draw.chance(this.#intensity.death);
    const death = draw.pick<Death>(['before', 'during', 'after']);
    const fails = draw.chance(this.#intensity.call);
    const fate = draw.pick(BAD[reach]);
    return {
      draw,
      death: dies && this.#fires(`death-${death}`, `${id}!`) ? death : 'none',
      fate: fails && this.#fires(fate, id) ? fate : 'ok',
    };
  }

  /** Whether something happens on this occasion; the draw decides its details. */
  chance(kind: string, subject: string, probability: number): Draw | undefined {
    const id = this.#id(`${kind}/${subject}`);
    const draw = new Draw(this.#seed, id);
    return draw.chance(probability) && this.#fires(kind, id) ? draw : undefined;
  }

  #id(key: string): string {
    const number = (this.#numbers.get(key) ?? 0) + 1;
    this.#numbers.set(key, number);
    return `${key}#${number}`;
  }

  #fires(kind: string, id: string): boolean {
    if (!this.enabled || (this.#allowed !== undefined && !this.#allowed.has(id))) return false;
    this.fired.push(id);
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    return true;
  }
}
