/** Where a session's time goes, for a tracing backend, as a port. Nothing here changes what happens. */

/** One life of a session with us, from its claim until its record is gone. Its trace is found again after a restart. */
export interface Life {
  readonly sessionId: string;
  readonly sandbox: string;
  /** Milliseconds since the epoch; what tells one life of a session from the next. */
  readonly startedAt: number;
}

export type Attributes = Readonly<Record<string, string | number | boolean>>;

export interface Tracer {
  /**
   * `work` as one step of the life. Without a life (there is no record yet) it is a trace of its own. A `routine` one is
   * recorded only when it fails, without the calls below it.
   */
  step<T>(
    life: Life | undefined,
    step: { readonly name: string; readonly attributes: Attributes; readonly routine: boolean },
    work: () => Promise<T>,
  ): Promise<T>;
  /** `work` as a call below the step that is running; outside of steps nothing is recorded. */
  call<T>(name: string, attributes: Attributes, work: () => Promise<T>): Promise<T>;
  /** The record is gone, so the trace is whole. */
  ended(life: Life): void;
}

export const noTracer: Tracer = {
  step: (_life, _step, work) => work(),
  call: (_name, _attributes, work) => work(),
  ended: () => undefined,
};
