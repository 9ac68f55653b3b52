/** Control, format and unpaired characters, and what begins or ends a name in prose, in lists or in a shell. */
const ODD = /[\p{C}\u2028\u2029"'`|\\$<>*?]|^\s|\s$/u;

/**
 * A path as the model reads it: as it is, or quoted as JSON where it could be taken for something else, such as two
 * names. Paths are told like this only; tools take them plain.
 */
export function showName(path: string): string {
  if (!ODD.test(path)) return path;
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(path).replaceAll(/[\p{C}\u2028\u2029]/gu, (found) => found.split('').map(escaped).join(''));
}
