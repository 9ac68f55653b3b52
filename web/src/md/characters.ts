const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g;

/** Prose without the characters that turn the order of what follows around: `moc.evil` could read as another name. */
export function withoutBidiControls(text: string): string {
  return text.replace(BIDI_CONTROLS, '');
}

/** Code with those characters spelled out: what a reader sees is then what a compiler reads. */
export function withVisibleBidiControls(code: string): string {
  return code.replace(BIDI_CONTROLS, (found) => `⟨U+${found.charCodeAt(0).toString(16).toUpperCase()}⟩`);
}
