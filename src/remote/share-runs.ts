/** One run for all who ask for the same at the same time. */

/**
 * The result of `run` under `key`, kept in `runs` while it succeeds. A failure is not remembered, and is only its own
 * asker's: that one may have given up, or have had less time, so each of the others then asks anew.
 */
export async function shareRuns<Key, T>(
  runs: Map<Key, Promise<T>>,
  key: Key,
  run: () => Promise<T>,
): Promise<T> {
  for (let known = runs.get(key); known !== undefined; known = runs.get(key)) {
    const outcome = await known.then(
      (value) => ({ value }),
      () => undefined,
    );
    if (outcome !== undefined) return outcome.value;
    if (runs.get(key) === known) runs.delete(key);
  }
  const started = run();
  runs.set(key, started);
  try {
    return await started;
  } catch (error) {
    if (runs.get(key) === started) runs.delete(key);
    throw error;
  }
}
