import { language, type Language } from '../i18n.ts';

/** The words that the Markdown parts say to people. */
export interface MdStrings {
  copy: string;
  copied: string;
  copyFailed: string;
  code: string;
  plainText: string;
  image: string;
  table: string;
  taskDone: string;
  taskOpen: string;
}

const STRINGS: Record<Language, MdStrings> = {
  en: {
    copy: 'Copy code',
    copied: 'Copied',
    copyFailed: 'Could not copy',
    code: 'Code',
    plainText: 'text',
    image: 'Image',
    table: 'Table',
    taskDone: 'Done',
    taskOpen: 'To do',
  },
  zh: {
    copy: '复制代码',
    copied: '已复制',
    copyFailed: '无法复制',
    code: '代码',
    plainText: '纯文本',
    image: '图片',
    table: '表格',
    taskDone: '已完成',
    taskOpen: '待办',
  },
};

/** In the language of the page; read it while drawing, so that a change of language shows at once. */
export function mdStrings(): MdStrings {
  return STRINGS[language.value];
}
