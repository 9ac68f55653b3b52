/** A document as models write them: 32 sections, about 11 kB, with each construct of a chat answer. */
export function longDocument(): string {
  return Array.from({ length: 32 }, (_, n) => SECTIONS[n % SECTIONS.length]?.(n + 1) ?? '').join('\n');
}

/** `text` in pieces of one to forty characters, the same each time. */
export function pieces(text: string, count: number): string[] {
  const cuts = Array.from({ length: count - 1 }, (_, n) =>
    Math.round((text.length * (n + 1 + 0.8 * Math.sin(n * 7))) / count),
  );
  const ends = [...new Set(cuts)].filter((at) => at > 0 && at < text.length).sort((a, b) => a - b);
  return [...ends, text.length].map((end, n) => text.slice(n === 0 ? 0 : ends[n - 1], end));
}

const SECTIONS: ((n: number) => string)[] = [
  (n) => `## ${n}. Overview

This part explains **how the plan** works, with *some emphasis*, \`inline code\` and a
[link to the site](https://example.com/plan/${n}). A second sentence makes it long enough to wrap over more than one line of
the page, ***very* important** and ~~wrong~~. A third one is here only because answers of models are long: they repeat the
question, **say *what* they will do**, do it, and end with a summary of what was done, however small the question was.
`,
  (n) => `### Steps of ${n}

1. **First**, look at the list
2. Then call \`run(${n})\`
   - a nested point with **bold text**
   - [x] not a task, [y] neither
3. Last, wait until **the *inner* and the outer** mark are closed, which takes one more line than it should

- [x] done
- [ ] to do **soon**
`,
  (n) => `| Name | Count | Note |
|:-----|------:|:----:|
| **alpha** | ${n} | \`a\` |
| beta | ${n * 7} | see [b](https://b.example) |

> A quotation with **bold** words
> over two lines, see [the notes][n${n}].

[n${n}]: https://notes.example/${n} "Notes"
`,
  (n) => `\`\`\`ts
// section ${n}
# not a heading
| not | a table |
export const value = [${n}, '**'].join('\\n');
\`\`\`

---

**重点：**第${n}节说明了**“如何开始”**的步骤，详见https://example.com/zh/${n}。然后
继续下一步。**注意：**如果一切正常，就不需要任何操作；否则请**“立即”**联系管理员。
`,
];
