/** Small files of the data directory that a backup holds only where it is told to. */
export const SECRET_FILES: readonly string[] = ['token', 'secret', 'model.json'];
