const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;
/** Control, format, private and unpaired characters, and those that end a line. */
const HIDDEN = /[\p{C}\u2028\u2029]/gu;

/** Prose without the characters that turn the order of what follows around: `moc.evil` could read as another name. */
export function withoutBidiControls(text: string): string {
  return text.replace(BIDI_CONTROLS, '');
}

/** Code with those characters spelled out: what a reader sees is then what a compiler reads. */
export function withVisibleBidiControls(code: string): string {
  return code.replace(BIDI_CONTROLS, spelledOut);
}

/** A name with all that does not show spelled out: one line, and no two names look the same for what is hidden in them. */
export function withVisibleHidden(name: string): string {
  return name.replace(HIDDEN, spelledOut);
}

const spelledOut = (found: string) => `⟨U+${found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`;
